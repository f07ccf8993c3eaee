package object

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/colligo-go/colligo/pg/pickle"
)

// Codec turns the objects of object collectives into bytes and back. All ranks of a call use the same. Its methods may be
// called from several goroutines.
type Codec interface {
	// Name names the codec in errors.
	Name() string
	// Marshal returns the bytes of v, which are the call's from then on.
	Marshal(v any) ([]byte, error)
	// Unmarshal reads b, which other ranks wrote, into what v points to. It must not change b.
	Unmarshal(b []byte, v any) error
}

// The codecs that come with the package. They are values; assigning to them is a mistake.
var (
	// JSON writes what encoding/json writes.
	JSON Codec = jsonCodec{}
	// Gob writes what encoding/gob writes, with the description of the type in each object.
	Gob Codec = gobCodec{}
	// Pickle writes plain values as Python does, so that ranks of PyTorch can read them, and reads theirs: see package pickle
	// for what is plain. An object is read into any, or into numbers, texts, bytes, slices and maps that hold it exactly.
	Pickle Codec = pickleCodec{}
)

type jsonCodec struct{}

func (jsonCodec) Name() string                    { return "json" }
func (jsonCodec) Marshal(v any) ([]byte, error)   { return json.Marshal(v) }
func (jsonCodec) Unmarshal(b []byte, v any) error { return json.Unmarshal(b, v) }

type gobCodec struct{}

func (gobCodec) Name() string { return "gob" }

func (gobCodec) Marshal(v any) ([]byte, error) {
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && p.IsNil() {
		return nil, fmt.Errorf("gob has no nil %T", v) // and panics
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func (gobCodec) Unmarshal(b []byte, v any) error { return gob.NewDecoder(bytes.NewReader(b)).Decode(v) }

type pickleCodec struct{}

func (pickleCodec) Name() string                  { return "pickle" }
func (pickleCodec) Marshal(v any) ([]byte, error) { return pickle.Marshal(v) }

func (pickleCodec) Unmarshal(b []byte, v any) error {
	got, err := pickle.Unmarshal(b)
	if err != nil {
		return err
	}
	return assign(reflect.ValueOf(v).Elem(), got)
}
