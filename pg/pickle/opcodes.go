package pickle

import "fmt"

// The opcodes of plain values, by pickletools' names.
const (
	opMark            = '('
	opStop            = '.'
	opNone            = 'N'
	opNewTrue         = 0x88
	opNewFalse        = 0x89
	opInt             = 'I'
	opLong            = 'L'
	opBinInt          = 'J'
	opBinInt1         = 'K'
	opBinInt2         = 'M'
	opLong1           = 0x8a
	opLong4           = 0x8b
	opFloat           = 'F'
	opBinFloat        = 'G'
	opUnicode         = 'V'
	opBinUnicode      = 'X'
	opShortBinUnicode = 0x8c
	opBinUnicode8     = 0x8d
	opBinBytes        = 'B'
	opShortBinBytes   = 'C'
	opBinBytes8       = 0x8e
	opByteArray8      = 0x96
	opEmptyList       = ']'
	opList            = 'l'
	opAppend          = 'a'
	opAppends         = 'e'
	opEmptyDict       = '}'
	opDict            = 'd'
	opSetItem         = 's'
	opSetItems        = 'u'
	opEmptyTuple      = ')'
	opTuple           = 't'
	opTuple1          = 0x85
	opTuple2          = 0x86
	opTuple3          = 0x87
	opPut             = 'p'
	opBinPut          = 'q'
	opLongBinPut      = 'r'
	opMemoize         = 0x94
	opGet             = 'g'
	opBinGet          = 'h'
	opLongBinGet      = 'j'
	opProto           = 0x80
	opFrame           = 0x95
)

// refused names the opcodes that no plain value needs. They call, import or build, or Python's pickler writes them for
// cycles and for types outside the subset.
var refused = map[byte]string{
	'0': "POP", '1': "POP_MARK", '2': "DUP", 'P': "PERSID", 'Q': "BINPERSID", 'R': "REDUCE", 'S': "STRING", 'T': "BINSTRING",
	'U': "SHORT_BINSTRING", 'b': "BUILD", 'c': "GLOBAL", 'i': "INST", 'o': "OBJ", 0x81: "NEWOBJ", 0x82: "EXT1", 0x83: "EXT2",
	0x84: "EXT4", 0x8f: "EMPTY_SET", 0x90: "ADDITEMS", 0x91: "FROZENSET", 0x92: "NEWOBJ_EX", 0x93: "STACK_GLOBAL",
	0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
}

// refusal says why an opcode is not read.
func refusal(op byte) error {
	if name, ok := refused[op]; ok {
		return fmt.Errorf("opcode %s: not a plain value", name)
	}
	return fmt.Errorf("byte %#02x is not an opcode", op)
}
