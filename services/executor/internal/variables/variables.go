// Package variables fills in the variables of a manifest's Run. It is pure.
//
// Guarantees:
//
//  1. Every unknown variable of a Run is found before anything is done with it.
//  2. What was filled in is not looked at again, so a label's value cannot smuggle in a variable.
//  3. A value cannot turn a probe elsewhere: in the host and the port of a probe's address it has only letters,
//     digits, dots, dashes and underscores, and behind them nothing that ends the address.
package variables

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// Values returns a variable's value by its name.
type Values map[string]string

// Facts are what the variables stand for.
type Facts struct {
	Agent, Version, Server string
	State, Image, Config   string // directories
	Labels, Metadata       map[string]string
}

// Values returns every variable of image.proto's Run.
func (f Facts) Values() Values {
	v := Values{
		"agent":   f.Agent,
		"version": f.Version,
		"server":  f.Server,
		"state":   f.State,
		"image":   f.Image,
		"config":  f.Config,
	}
	for name, value := range f.Labels {
		v["label."+name] = value
	}
	for name, value := range f.Metadata {
		v.add("metadata."+name, metadata.Decode(value))
	}
	return v
}

// add adds what a value holds, and each key of an object behind a dot. A key with a dot or a brace has no variable.
func (v Values) add(name string, held any) {
	v[name] = metadata.Plain(held)
	o, _ := held.(map[string]any)
	for key, part := range o {
		if !strings.ContainsAny(key, ".}") {
			v.add(name+"."+key, part)
		}
	}
}

// Run is a manifest's Run with every variable filled in.
type Run struct {
	Command string
	Args    []string
	Env     []string      // NAME=value, sorted
	HTTP    string        // the URL to probe, or empty
	TCP     string        // the address to probe, or empty
	Exec    *imagev1.Exec // the program that probes, or nil
	Sockets []*imagev1.Socket

	Rehearsal *imagev1.Exec // the check before a switch, or nil
}

// Same reports whether two runs make the same process, proven in the same way.
func (r Run) Same(o Run) bool {
	return r.Command == o.Command && slices.Equal(r.Args, o.Args) && slices.Equal(r.Env, o.Env) &&
		r.HTTP == o.HTTP && r.TCP == o.TCP && proto.Equal(r.Exec, o.Exec) &&
		slices.EqualFunc(r.Sockets, o.Sockets, func(a, b *imagev1.Socket) bool { return proto.Equal(a, b) })
}

// Fill fills in the variables of r. An error carries the refusal UNKNOWN_VARIABLE or BAD_VARIABLE.
func (v Values) Fill(r *imagev1.Run) (Run, error) {
	f := filler{values: v}
	out := Run{
		Command: f.fill(r.GetCommand()),
		HTTP:    f.url(r.GetReady().GetHttp()),
		TCP:     f.fillWith(r.GetReady().GetTcp(), ofHost),
		Exec:    f.exec(r.GetReady().GetExec()),

		Rehearsal: f.exec(r.GetRehearsal()),
	}
	for _, a := range r.GetArgs() {
		out.Args = append(out.Args, f.fill(a))
	}
	for _, name := range slices.Sorted(maps.Keys(r.GetEnv())) {
		out.Env = append(out.Env, name+"="+f.fill(r.GetEnv()[name]))
	}
	for _, s := range r.GetSockets() {
		out.Sockets = append(out.Sockets, &imagev1.Socket{Name: s.GetName(), Listen: f.fill(s.GetListen())})
	}
	return out, f.err
}

func (f *filler) exec(e *imagev1.Exec) *imagev1.Exec {
	if e == nil {
		return nil
	}
	out := &imagev1.Exec{Command: f.fill(e.GetCommand())}
	for _, a := range e.GetArgs() {
		out.Args = append(out.Args, f.fill(a))
	}
	return out
}

type filler struct {
	values Values
	err    error
}

// fill replaces each ${NAME}. A dollar sign without a brace stands for itself.
func (f *filler) fill(s string) string { return f.fillWith(s, func(string) bool { return true }) }

// fillWith does the same with values that fit.
func (f *filler) fillWith(s string, fits func(value string) bool) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, closed := strings.Cut(rest, "}")
		value, known := f.values[name]
		if !closed || !known {
			f.refuse(name)
			return ""
		}
		if !fits(value) {
			f.refuseValue(name, value)
			return ""
		}
		b.WriteString(value)
		s = after
	}
}

func (f *filler) refuse(name string) {
	if f.err != nil {
		return
	}
	f.err = fault.Refuse(fault.Invalid, &apiv1.Refusal{
		Code: code.UnknownVariable,
		Message: fmt.Sprintf("the image's run uses ${%s}; known here: %s", name,
			strings.Join(slices.Sorted(maps.Keys(f.values)), ", ")),
	})
}

var hostWord = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// ofHost reports whether a value can be a part of a host or a port, and of nothing else in an address.
func ofHost(value string) bool { return hostWord.MatchString(value) }

// ofPath reports whether a value can be a part of a path or a query.
func ofPath(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == '#'
	})
}

// url fills in the variables of a probe's URL. Its host ends where the manifest says so, whatever the values are.
func (f *filler) url(s string) string {
	end := endOfHost(s)
	return f.fillWith(s[:end], ofHost) + f.fillWith(s[end:], ofPath)
}

// endOfHost returns where the path of a URL begins. The names of variables do not count.
func endOfHost(s string) int {
	at := strings.Index(s, "://")
	if at < 0 {
		return len(s)
	}
	inside := false
	for at += len("://"); at < len(s); at++ {
		switch {
		case strings.HasPrefix(s[at:], "${"):
			inside = true
		case s[at] == '}':
			inside = false
		case !inside && strings.IndexByte("/?#", s[at]) >= 0:
			return at
		}
	}
	return len(s)
}

func (f *filler) refuseValue(name, value string) {
	if f.err == nil {
		f.err = fault.Refusef(fault.Invalid, code.BadVariable,
			"the image's probe uses ${%s}, which is %.80q here and could turn the probe elsewhere", name, value)
	}
}
