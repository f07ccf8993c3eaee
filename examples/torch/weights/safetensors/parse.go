package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// parser reads a header token by token. So a name that stands twice is seen, and nothing is kept that the format does not have.
type parser struct{ *json.Decoder }

// parse reads what a header says, without checking tensors.
func parse(b []byte) (*Header, error) {
	if !utf8.Valid(b) {
		return nil, errors.New("it is not UTF-8")
	}
	if len(b) == 0 || b[0] != '{' {
		return nil, errors.New("it does not begin with {")
	}
	p := parser{json.NewDecoder(bytes.NewReader(b))}
	p.UseNumber()
	h := &Header{}
	err := p.object(func(name string) (err error) {
		if name != metadata {
			return p.tensor(h, name)
		}
		if h.Metadata != nil {
			return fmt.Errorf("%s stands in it twice", metadata)
		}
		h.Metadata, err = p.texts()
		return err
	})
	if err != nil {
		return nil, err
	}
	if rest := bytes.Trim(b[p.InputOffset():], " "); len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes stand behind it", len(rest))
	}
	return h, nil
}

// token returns the next token. The end of the text is an error here.
func (p parser) token() (json.Token, error) {
	t, err := p.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return t, err
}

// begin reads a { or [.
func (p parser) begin(d json.Delim) error {
	t, err := p.token()
	if err == nil && t != d {
		err = fmt.Errorf("%v at byte %d, want %v", t, p.InputOffset(), d)
	}
	return err
}

// object reads an object, and has each read the value behind a name.
func (p parser) object(each func(name string) error) error {
	if err := p.begin('{'); err != nil {
		return err
	}
	for p.More() {
		name, err := p.text()
		if err != nil {
			return err
		}
		if err := each(name); err != nil {
			return err
		}
	}
	_, err := p.token()
	return err
}

// text reads a string.
func (p parser) text() (string, error) {
	t, err := p.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("%v at byte %d, want a string", t, p.InputOffset())
	}
	return s, nil
}

// texts reads an object of strings.
func (p parser) texts() (map[string]string, error) {
	all := map[string]string{}
	return all, p.object(func(name string) (err error) {
		if _, ok := all[name]; ok {
			return fmt.Errorf("metadata %q stands in it twice", name)
		}
		all[name], err = p.text()
		return err
	})
}

// numbers reads a list of at most so many whole numbers, none of them negative.
func (p parser) numbers(most int) (all []int64, err error) {
	if err := p.begin('['); err != nil {
		return nil, err
	}
	for p.More() {
		t, err := p.token()
		if err != nil {
			return nil, err
		}
		n, ok := t.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%v at byte %d, want a number", t, p.InputOffset())
		}
		v, err := strconv.ParseInt(n.String(), 10, 64)
		if err != nil || v < 0 {
			return nil, fmt.Errorf("%s at byte %d, want a whole number from 0", n, p.InputOffset())
		}
		if all = append(all, v); len(all) > most {
			return nil, fmt.Errorf("a list of more than %d numbers at byte %d", most, p.InputOffset())
		}
	}
	_, err = p.token()
	return all, err
}

// tensor reads a tensor and adds it to the header.
func (p parser) tensor(h *Header, name string) error {
	t := Tensor{Name: name}
	seen := map[string]bool{}
	err := p.object(func(field string) (err error) {
		if seen[field] {
			return fmt.Errorf("%s stands there twice", field)
		}
		seen[field] = true
		switch field {
		case "dtype":
			t.DType, err = p.text()
		case "shape":
			t.Shape, err = p.numbers(maxDims)
		case "data_offsets":
			var at []int64
			if at, err = p.numbers(2); err == nil && len(at) != 2 {
				err = fmt.Errorf("data_offsets has %d numbers, want 2", len(at))
			}
			if err == nil {
				t.Begin, t.End = at[0], at[1]
			}
		default:
			err = fmt.Errorf("%q is not part of the format", field)
		}
		return err
	})
	if err == nil && len(seen) != 3 {
		err = errors.New("dtype, shape and data_offsets are not all there")
	}
	if err != nil {
		return fmt.Errorf("tensor %q: %w", name, err)
	}
	h.Tensors = append(h.Tensors, t)
	return nil
}
