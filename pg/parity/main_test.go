package parity

import (
	"os"
	"testing"

	"github.com/colligo-go/colligo/internal/gputest"
)

func TestMain(m *testing.M) {
	gputest.Prepare()
	os.Exit(m.Run())
}
