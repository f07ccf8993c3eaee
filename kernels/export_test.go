package kernels

import "github.com/colligo-go/colligo"

// InstructionSets names those that the tests can run, the Go loops first.
func InstructionSets() []string {
	all := []string{"go"}
	for _, s := range instructionSets() {
		all = append(all, s.name)
	}
	return all
}

// LookupIn finds the kernel that Lookup would find if set were the machine's best; nil where there is none.
func LookupIn(set string, d colligo.DType, k colligo.OpKind) *Kernel {
	kernel := &tables[set][d][k]
	if kernel.reduce == nil {
		return nil
	}
	return kernel
}

var tables = func() map[string]*kernelTable {
	all := map[string]*kernelTable{"go": buildTable(instructionSet{})}
	for _, s := range instructionSets() {
		all[s.name] = buildTable(s)
	}
	return all
}()

// Vectors says which of a kernel's methods have a vector loop: Reduce and Fold, Finish, Scale.
func (k *Kernel) Vectors() (reduce, finish, scale bool) {
	return k.vector.reduce != nil, k.divides != nil, k.scales != nil
}

// StreamBytes is the size of results that go past the caches.
const StreamBytes = streamBytes
