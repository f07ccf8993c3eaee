//go:build !noasm

#include "textflag.h"
#include "funcdata.h"

// The fields of Frame.
#define frame_function 0
#define frame_words    8
#define frame_stack    200

// func frameC(f *Frame), by C's rules for calls: f is in DI, and the stack is aligned but for the return address.
// It calls the function with the first six words in registers, and with the words after them, if there are some, on the stack. The
// function's result is its own. Nothing of f is read or written after the call: if the function calls Go, f may lie elsewhere then.
TEXT frameC<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BX
	PUSHQ R12
	PUSHQ R13                   // aligned again
	MOVQ  DI, BX
	MOVQ  SP, R12
	MOVQ  frame_stack(BX), CX
	MOVQ  CX, R13
	SHLQ  $3, R13
	SUBQ  R13, SP

next:
	TESTQ CX, CX
	JZ    registers
	MOVQ  frame_words+40(BX)(CX*8), R13 // word 5+CX of those that are counted from 0
	MOVQ  R13, -8(SP)(CX*8)
	DECQ  CX
	JMP   next

registers:
	MOVQ frame_words+0(BX), DI
	MOVQ frame_words+8(BX), SI
	MOVQ frame_words+16(BX), DX
	MOVQ frame_words+24(BX), CX
	MOVQ frame_words+32(BX), R8
	MOVQ frame_words+40(BX), R9
	XORL AX, AX
	MOVQ frame_function(BX), R11
	CALL R11
	MOVQ R12, SP
	POPQ R13
	POPQ R12
	POPQ BX
	RET

// func frameAddress() uintptr
TEXT ·frameAddress(SB), NOSPLIT, $0-8
	LEAQ frameC<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// func Word(fn uintptr) (word uintptr, result int32)
// The word lies on the goroutine's stack, which stays where it is until the runtime hears of this goroutine again.
TEXT ·Word(SB), 0, $32-20
	NO_LOCAL_POINTERS
	MOVQ fn+0(FP), AX
	MOVQ AX, 0(SP)
	MOVQ $0, 24(SP)
	LEAQ 24(SP), AX
	MOVQ AX, 8(SP)
	CALL runtime·asmcgocall(SB) // of a function and its argument, with a result of 32 bits
	MOVL 16(SP), AX
	MOVL AX, result+16(FP)
	MOVQ 24(SP), AX
	MOVQ AX, word+8(FP)
	RET
