// Package sparse sums tensors of which each rank has only some rows, as the gradients of embeddings. Its functions are
// c10d's all_reduce of sparse tensors.
//
// Invariants, numbered so that code and tests can cite them:
//
//  1. The sum is bitwise the same on all ranks and in every run: rows ascend, and AllReduce adds each in the order of the
//     ranks.
//  2. Sizes that other ranks announce are held against the lowest Config.MaxObject of all ranks before memory is taken for
//     them. So all ranks refuse the same call.
//  3. If the tensor of one rank is wrong, every rank of the AllReduce gets an error and the group goes on.
//
// Tensors travel by the group's public collectives. On a device there is AllReduceAt only, which needs no memory.
package sparse
