// Package triton reads dumps of a Triton data centre and says what Garrison makes of them. It is pure.
//
// A dump is any number of JSON files: arrays, one object a line, or single objects, as sdc-sapi, sdc-cnapi and
// sdc-imgadm print them. Objects are known by their shape, not by the name of their file.
//
//	| Triton                           | Garrison                                                          |
//	|----------------------------------|-------------------------------------------------------------------|
//	| SAPI application                 | application; its origin is triton:UUID                            |
//	| SAPI service of type agent       | agent; its origin is triton:UUID                                  |
//	| SAPI service of type vm          | agent of kind external, when a reporter is named                  |
//	| SAPI instance of type agent      | a wanted agent on a server                                        |
//	| CNAPI server, or its sysinfo     | server under its UUID and hostname, with labels                   |
//	| CNAPI server's agents            | wanted agents, with their versions                                |
//	| IMGAPI manifest                  | image, when a file beside it is one                               |
//
// Guarantees:
//
//  1. UUIDs, names and versions are kept as they are; what cannot be kept is listed with its reason and left out.
//  2. Real data is taken: numbers and truth values may be texts, and any field may be missing.
//  3. The same dump leads to the same objects, in whatever order its files and objects are.
//  4. A value whose name says that it is a secret is left out: the ledger never forgets.
package triton

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

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

// Dump is what the files of a dump hold, by UUID.
type Dump struct {
	applications, services, instances, servers, images map[string]found

	skipped []declare.Skipped
	left    map[declare.Skipped]int // what is left out of a file, counted
}

// found is an object and the file in which it is.
type found struct {
	object
	file string
}

// add takes an object, or counts why it is left out.
func (d *Dump) add(o object, file string) {
	switch s := shapeOf(o); s {
	case application:
		d.put(d.applications, s, o, file)
	case service:
		d.put(d.services, s, o, file)
	case instance:
		d.put(d.instances, s, o, file)
	case image:
		d.put(d.images, s, o, file)
	case server:
		d.put(d.servers, s, o, file)
	case sysinfo:
		d.put(d.servers, s, object{"uuid": o.text("UUID"), "sysinfo": map[string]any(o)}, file)
	case template:
		d.leave(s, file, "a template of a configuration is a part of an image: see garrison image build --help")
	case task:
		d.leave(s, file, "a task of the past; Garrison keeps only its own")
	case entry:
		d.leave(s, file, "an agent without the server that it is on")
	default:
		d.leave(s, file, "an object with the keys "+keysOf(o)+", which no dump of SAPI, CNAPI or IMGAPI has")
	}
}

// put takes an object under its UUID. Of a server, what CNAPI says is completed by its sysinfo.
func (d *Dump) put(into map[string]found, s shape, o object, file string) {
	id := o.uuid("uuid")
	have, twice := into[id]
	switch {
	case id == "":
		d.leave(s, file, "it has no UUID")
	case !twice:
		into[id] = found{o, file}
	case reflect.DeepEqual(have.object, o):
	case s == sysinfo:
		if !have.has("sysinfo") {
			have.object["sysinfo"] = o["sysinfo"]
		}
	case len(have.object) == 2 && have.has("sysinfo"): // only its sysinfo is known
		if !o.has("sysinfo") {
			o["sysinfo"] = have.object["sysinfo"]
		}
		into[id] = found{o, file}
	default:
		d.skip(string(s), id, fmt.Sprintf("%s has another object with this UUID than %s", file, have.file))
	}
}

// leave counts an object of a file that is left out.
func (d *Dump) leave(s shape, file, reason string) {
	d.left[declare.Skipped{Kind: string(s), Name: file, Reason: reason}]++
}

// skip says that an object is left out.
func (d *Dump) skip(kind, name, reason string) {
	d.skipped = append(d.skipped, declare.Skipped{Kind: kind, Name: name, Reason: reason})
}

// allSkipped returns everything that is left out, sorted.
func (d *Dump) allSkipped() []declare.Skipped {
	out := slices.Clone(d.skipped)
	for s, n := range d.left {
		if n > 1 {
			s.Reason = fmt.Sprintf("%d times: %s", n, s.Reason)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b declare.Skipped) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}
