//go:build !noasm

package kernels

import "golang.org/x/sys/cpu"

// instructionSets are those that this machine has, the best first.
func instructionSets() []instructionSet {
	var all []instructionSet
	x := &cpu.X86
	avx2 := x.HasAVX2 && x.HasBMI2 && hasF16C()
	if avx2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL {
		all = append(all, instructionSet{"avx512", 1, avx512Loops})
	}
	if avx2 {
		all = append(all, instructionSet{"avx2", 32, avx2Loops})
	}
	return all
}

// hasF16C asks the processor for conversions of float16, of which package cpu does not tell.
func hasF16C() bool
