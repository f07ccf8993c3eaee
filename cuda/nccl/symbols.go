package nccl

// symbol is one function of the library.
type symbol int

const (
	getVersion symbol = iota
	getUniqueID
	commInitRank
	commDestroy
	commAbort
	getErrorString
	allReduce
	reduce
	reduceScatter
	allGather
	broadcast
	send
	recv
	groupStart
	groupEnd
	getLastError // since 2.13; may be missing
	commRegister // since 2.19; may be missing
	numSymbols
)

var names = [numSymbols]string{"ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank", "ncclCommDestroy", "ncclCommAbort",
	"ncclGetErrorString", "ncclAllReduce", "ncclReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast", "ncclSend",
	"ncclRecv", "ncclGroupStart", "ncclGroupEnd", "ncclGetLastError", "ncclCommRegister"}
