// Package safetensors reads and writes .safetensors files, in which weights of models are kept. A file is a 64-bit little-endian
// length, a header of that length in JSON, and the bytes of the tensors. The header has for each name an element type, a shape, and
// where its bytes begin and end behind the header. Its format is https://huggingface.co/docs/safetensors/index#format.
//
// A header may come from anywhere, so it is checked before anything is made of its numbers:
//
//  1. It has at most MaxHeader bytes, is UTF-8, and has nothing behind its object but spaces.
//  2. No name stands in it twice, in the list of tensors or in a tensor.
//  3. A tensor has as many bytes as its shape and its element type ask for; no product overflows.
//  4. The tensors follow one another without gap or overlap, from byte 0 on.
//  5. A file ends where its last tensor ends.
//
// Parse takes memory in proportion to the header's bytes, and none for what the header announces. The package never interprets
// elements, and never reads a tensor that it was not asked for.
package safetensors
