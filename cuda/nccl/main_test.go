package nccl_test

import (
	"os"
	"testing"

	"github.com/colligo-go/colligo/internal/testload"
)

// TestMain runs more tests at a time than there are processors, for those that are parallel wait for a time limit.
func TestMain(m *testing.M) {
	testload.AtLeast(16)
	os.Exit(m.Run())
}
