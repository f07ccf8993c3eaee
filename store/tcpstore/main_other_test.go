//go:build !linux

package tcpstore

import (
	"testing"

	"github.com/colligo-go/colligo/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }
