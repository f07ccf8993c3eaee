// Package torch knows how ranks of PyTorch meet: where their groups are in the store, and how they agree on groups made of others. It
// is the same for all of PyTorch's backends.
//
// Invariants:
//
//  1. Nothing is put into the store that PyTorch's ranks would not put there.
//  2. Colors are computed from ranks alone, so that all ranks find the same without asking one another.
package torch
