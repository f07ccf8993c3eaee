//go:build !noasm

#include "textflag.h"

// func walk(pcs *uintptr, n int) int
TEXT ·walk(SB), NOSPLIT|NOFRAME, $0-24
	MOVQ pcs+0(FP), DI
	MOVQ n+8(FP), SI
	XORQ AX, AX
	MOVQ BP, DX

next:
	MOVQ 8(DX), CX
	MOVQ CX, (DI)(AX*8)
	INCQ AX
	MOVQ (DX), CX
	CMPQ CX, DX // callers lie above, and the last frame has 0
	JLS  done
	MOVQ CX, DX
	CMPQ AX, SI
	JLT  next

done:
	MOVQ AX, ret+16(FP)
	RET
