//go:build !noasm

#include "textflag.h"

// func walk(pcs *uintptr, n int) int
TEXT ·walk(SB), NOSPLIT|NOFRAME, $0-24
	MOVD pcs+0(FP), R0
	MOVD n+8(FP), R1
	MOVD ZR, R2
	MOVD R29, R3

next:
	CMP  R1, R2
	BGE  done
	CBZ  R3, done
	MOVD 8(R3), R4
	MOVD R4, (R0)(R2<<3)
	ADD  $1, R2
	MOVD (R3), R4
	CMP  R3, R4 // callers lie above
	BLS  done
	MOVD R4, R3
	B    next

done:
	MOVD R2, ret+16(FP)
	RET
