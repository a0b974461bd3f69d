package triton

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

// maxWrapped is how deep objects of a dump may lie in other objects, such as {"services": [...]}.
const maxWrapped = 4

// Read returns what the files of a dump hold. A file that is no JSON is refused.
func Read(files []declare.File) (*Dump, error) {
	d := &Dump{
		applications: map[string]found{}, services: map[string]found{}, instances: map[string]found{},
		servers: map[string]found{}, images: map[string]found{}, left: map[declare.Skipped]int{},
	}
	for _, f := range files {
		if len(f.Data) > declare.MaxFile {
			return nil, wrong("%s has %d bytes; %d are the most", f.Name, len(f.Data), declare.MaxFile)
		}
		if err := d.read(f); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func wrong(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.BadDeclaration, "%s", fmt.Sprintf(format, args...))
}

// read takes the values of a file, which follow each other.
func (d *Dump) read(f declare.File) error {
	body := withoutHeader(f.Data)
	for j := decoder(body); ; {
		var v any
		err := j.Decode(&v)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return wrong("%s: no JSON at byte %d: %v", f.Name, int64(len(f.Data)-len(body))+j.InputOffset(), err)
		}
		d.take(v, f.Name, 0)
	}
}

func decoder(data []byte) *json.Decoder {
	j := json.NewDecoder(bytes.NewReader(data))
	j.UseNumber()
	return j
}

// withoutHeader returns a file without the HTTP header that sdc-sapi and the like print before an answer.
func withoutHeader(data []byte) []byte {
	if !bytes.HasPrefix(data, []byte("HTTP/")) {
		return data
	}
	for _, end := range []string{"\r\n\r\n", "\n\n"} {
		if _, body, ok := bytes.Cut(data, []byte(end)); ok {
			return body
		}
	}
	return data
}

// take takes a value: an object, or the objects of an array or of an object that wraps them.
func (d *Dump) take(v any, file string, depth int) {
	switch v := v.(type) {
	case []any:
		for _, in := range v {
			d.take(in, file, depth)
		}
	case map[string]any:
		if o := object(v); shapeOf(o) != unknown || depth == maxWrapped || !wraps(o) {
			d.add(o, file)
			return
		}
		for _, in := range v {
			d.take(in, file, depth+1)
		}
	default:
		d.leave(unknown, file, "a value, not an object")
	}
}

// wraps reports whether an object holds nothing but objects and arrays.
func wraps(o object) bool {
	for _, v := range o {
		switch v.(type) {
		case map[string]any, []any:
		default:
			return false
		}
	}
	return len(o) > 0
}
