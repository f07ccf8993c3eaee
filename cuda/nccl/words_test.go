package nccl_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
)

// TestErrorWords has the parts of an error of a call by which users of PyTorch look for it, for each result.
func TestErrorWords(t *testing.T) {
	for result, hint := range map[nccl.Result]string{
		nccl.UnhandledCudaError: "ncclUnhandledCudaError: Call to CUDA function failed",
		nccl.SystemError:        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error",
		nccl.InternalError:      "ncclInternalError: Internal check failed",
		nccl.InvalidArgument:    "ncclInvalidArgument: Invalid value for an argument",
		nccl.InvalidUsage:       "ncclInvalidUsage: This usually reflects invalid usage of NCCL library",
		nccl.RemoteError:        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely",
	} {
		sim := ncclsim.New(nil, ncclsim.Version)
		l, err := sim.Library()
		require.NoError(t, err)
		sim.Fail("ncclGetUniqueId", result)
		_, err = l.NewUniqueID()
		require.ErrorContains(t, err, "nccl: ncclGetUniqueId: NCCL error: simulated "+result.String()+", NCCL version 2.28.9; "+hint+
			"; Last error: simulated fault of ncclGetUniqueId (result ")
		require.NotContains(t, err.Error(), "\n")
	}
}

// TestRefusedWords has the texts of refused reductions.
func TestRefusedWords(t *testing.T) {
	for _, x := range []struct {
		version int
		d       colligo.DType
		k       colligo.OpKind
		text    string
	}{
		{22809, colligo.Int32, colligo.KindBAnd, "Cannot use ReduceOp.BAND with NCCL"},
		{22809, colligo.Int32, colligo.KindBOr, "Cannot use ReduceOp.BOR with NCCL"},
		{22809, colligo.Int32, colligo.KindBXor, "Cannot use ReduceOp.BXOR with NCCL"},
		{22809, colligo.Bool, colligo.KindAvg, "Cannot use ReduceOp.AVG with boolean inputs"},
		{20908, colligo.Float32, colligo.KindAvg, "AVG requires NCCL 2.10+. The current version is 2.9.8"},
		{22303, colligo.Float8E4M3FN, colligo.KindSum, "Unsupported Float8 type for NCCL reduction"},
		{22809, colligo.Complex64, colligo.KindMax, "does not support MAX on complex tensors"},
		{22809, colligo.Int16, colligo.KindSum, "Input tensor data type is not supported for NCCL process group: int16"},
	} {
		l, err := ncclsim.New(nil, x.version).Library()
		require.NoError(t, err)
		_, _, _, err = l.Reduced(x.d, x.k)
		require.ErrorContains(t, err, x.text)
	}
}
