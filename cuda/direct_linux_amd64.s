//go:build !noasm

#include "textflag.h"

// The fields of pair.
#define pair_query  0
#define pair_launch 8
#define pair_exec   16
#define pair_stream 24
#define pair_id     32
#define pair_status 40
#define pair_result 44

// func pairC(p *pair), by C's rules for calls: p is in DI, and the stack is aligned but for the return address.
// It calls query(stream, &status, &id, 0, 0, 0), and if that returns 0 and the status is 0, launch(exec, stream).
TEXT pairC<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BX
	MOVQ  DI, BX
	MOVQ  pair_stream(BX), DI
	LEAQ  pair_status(BX), SI
	LEAQ  pair_id(BX), DX
	XORL  CX, CX
	XORL  R8, R8
	XORL  R9, R9
	XORL  AX, AX
	MOVQ  pair_query(BX), R11
	CALL  R11
	MOVL  AX, pair_result(BX)
	TESTL AX, AX
	JNZ   done
	MOVL  pair_status(BX), AX
	TESTL AX, AX
	JNZ   done
	MOVQ  pair_exec(BX), DI
	MOVQ  pair_stream(BX), SI
	XORL  AX, AX
	MOVQ  pair_launch(BX), R11
	CALL  R11
	MOVL  AX, pair_result(BX)

done:
	POPQ BX
	RET

// func pairAddress() uintptr
TEXT ·pairAddress(SB), NOSPLIT, $0-8
	LEAQ pairC<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET
