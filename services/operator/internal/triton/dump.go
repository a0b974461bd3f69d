package triton

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

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
		d.leave(s, file, "a task of the past; garrison keeps only its own")
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
	case len(have.object) == 2 && have.has("sysinfo"): // of which only the sysinfo is known
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
