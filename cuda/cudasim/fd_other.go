//go:build !unix

package cudasim

import "errors"

const descriptors = 0 // the attribute FileDescriptorHandles

func makeFD([]byte) (int, error) { return -1, errors.ErrUnsupported }

func readFD(int, []byte) error { return errors.ErrUnsupported }
