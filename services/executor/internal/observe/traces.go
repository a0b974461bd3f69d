package observe

import (
	"cmp"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// A trace is a link, a process or a unit that no instance of the inventory explains. Only
// what is below this root, runs from it, or bears the name of its units counts: each executor
// on a machine reports its own.

// MaxTraces bounds the reported traces; the rest are counted.
const MaxTraces = 64

// Trace is what there is of an agent, unless the inventory explains it.
type Trace struct {
	*reportv1.Found
	name string // the agent's, also where that is no valid name
	slot string // of a unit: the start of its image's id
}

// traces looks at the disk, the processes and the supervisor.
func (o *Observer) traces(whole WholeFunc) []Trace {
	slots, err := o.Slots()
	if err != nil {
		o.Log.Warn().Err(err).Msg("units not looked at") // their processes are
	}
	var units []Trace
	recorded := map[int]bool{}
	for _, s := range slots {
		if s.Name == "" {
			recorded[s.Pid] = true
			continue
		}
		t := newTrace(s.Agent, serverv1.Trace_TRACE_UNIT, s.Name,
			"systemd has "+s.Name+", which is not in the inventory")
		t.slot = s.Image
		units = append(units, t)
	}
	processes := slices.DeleteFunc(o.running(recorded), func(p Trace) bool {
		return slices.ContainsFunc(units,
			func(u Trace) bool { return u.name == p.name && strings.HasPrefix(plainID(p.Image), u.slot) })
	})
	return slices.Concat(o.links(whole), processes, units)
}

func newTrace(name string, kind serverv1.Trace, path, reason string) Trace {
	found := &reportv1.Found{
		Trace: kind, Path: printable(path), Health: instancev1.Health_HEALTH_BAD, Reason: reason,
	}
	if ident.CheckName("agent", name) == nil {
		found.Agent = name
	}
	return Trace{Found: found, name: name}
}

// links looks at the link of each agent's directory.
func (o *Observer) links(whole WholeFunc) (out []Trace) {
	entries, _ := os.ReadDir(o.Root.Agents()) // a missing directory has no agents
	for _, d := range entries {
		path := o.Root.Current(d.Name())
		target, err := os.Readlink(path)
		if err != nil || strings.HasPrefix(d.Name(), layout.TemporaryPrefix) {
			continue // also what a removal moved aside
		}
		t := newTrace(d.Name(), serverv1.Trace_TRACE_LINK, o.Root.Relative(path), "its link is not in the inventory")
		if digest := Linked(o.Root, d.Name()); digest != nil {
			mark, err := whole(digest)
			t.Image = ref(mark, digest)
			if err != nil {
				t.Reason += ", and " + change.OneLine(err)
			}
		} else {
			o.outside(t, target)
		}
		out = append(out, t)
	}
	return out
}

// outside describes a link that leads to no image of this root. It is another executor's when
// it leads to a sealed image that bears the name of its directory.
func (o *Observer) outside(t Trace, target string) {
	if !filepath.IsAbs(target) {
		target = filepath.Join(o.Root.Agent(t.name), target)
	}
	t.Reason += ", and leads to " + printable(target)
	images, name := filepath.Split(filepath.Clean(target))
	root := layout.Root(filepath.Dir(filepath.Clean(images)))
	digest, ok := layout.Digest(name)
	if !ok || root.Images() != filepath.Clean(images) || root == o.Root {
		return
	}
	if mark, err := imagedir.New(root).Mark(digest); err == nil {
		t.OtherRoot, t.Image = printable(string(root)), ref(mark, digest)
	}
}

// ref names an image by its mark; what the mark does not say is left out.
func ref(m imagedir.Mark, digest []byte) *imagev1.Ref {
	return &imagev1.Ref{Id: m.ImageID, Version: m.Version, Digest: digest}
}

// running looks for processes that run from an image of ours, and returns one trace for each
// image. A script's process executes its interpreter: it is known only when it is recorded.
func (o *Observer) running(recorded map[int]bool) []Trace {
	paths := newImagePaths(o.Root)
	return o.processes(func(pid int) []byte {
		if recorded[pid] {
			return paths.of(pid)
		}
		return paths.executes(pid)
	})
}

// processes looks for processes for which imageOf returns the digest of an image of ours.
func (o *Observer) processes(imageOf func(pid int) []byte) (out []Trace) {
	pids, _ := proctree.All() // without the list no process is known
	for _, pid := range pids {
		digest := imageOf(pid)
		if digest == nil || pid == os.Getpid() {
			continue
		}
		p := o.processTrace(pid, digest)
		same := slices.IndexFunc(out, func(t Trace) bool {
			return t.Path == p.Path && t.OtherServerId == p.OtherServerId
		})
		if same < 0 {
			out = append(out, p)
		} else {
			out[same].Pid = min(out[same].Pid, p.Pid)
		}
	}
	return out
}

// processTrace describes a process. Another server's executor started it when its environment
// says so.
func (o *Observer) processTrace(pid int, digest []byte) Trace {
	mark, err := o.Images.Mark(digest)
	if err != nil { // the image was deleted under the process
		mark = imagedir.Mark{
			Agent:   proctree.Variable(pid, "GARRISON_AGENT"),
			Version: printable(proctree.Variable(pid, "GARRISON_VERSION")),
		}
	}
	p := newTrace(mark.Agent, serverv1.Trace_TRACE_PROCESS, o.Root.Relative(o.Root.Image(digest)),
		"it runs, and is not in the inventory")
	p.Image, p.Pid = ref(mark, digest), uint32(pid)
	if server := proctree.Variable(pid, "GARRISON_SERVER"); ident.IsUUID(server) && server != o.Server {
		p.OtherServerId = server
		p.Reason = "it runs, and the executor of server " + server + " started it"
	}
	return p
}

// report lists traces, in order, as many as fit.
func report(traces []Trace) *reportv1.AgentsReport {
	slices.SortFunc(traces, func(a, b Trace) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.Trace, b.Trace), strings.Compare(a.Path, b.Path),
			strings.Compare(a.OtherServerId, b.OtherServerId))
	})
	r := &reportv1.AgentsReport{More: uint32(max(0, len(traces)-MaxTraces))}
	for _, t := range traces[:min(len(traces), MaxTraces)] {
		r.Agents = append(r.Agents, t.Found)
	}
	return r
}

// markBeside marks each healthy instance as bad when something unmanaged runs beside it.
func (o *Observer) markBeside(agents, traces []*reportv1.Found) {
	for _, t := range traces {
		n := slices.IndexFunc(agents,
			func(f *reportv1.Found) bool { return f.Agent == t.Agent && f.Health == instancev1.Health_HEALTH_GOOD })
		if n < 0 || t.Trace == serverv1.Trace_TRACE_LINK {
			continue
		}
		what := t.Path
		if t.Trace == serverv1.Trace_TRACE_PROCESS {
			what = "version " + o.versionOf(t.GetImage().GetDigest())
		}
		agents[n].Health = instancev1.Health_HEALTH_BAD
		agents[n].Code = code.RunsBeside
		agents[n].Reason = what + " is also running and is not managed by this executor"
	}
}

func (o *Observer) versionOf(digest []byte) string {
	if mark, err := o.Images.Mark(digest); err == nil {
		return mark.Version
	}
	return hex.EncodeToString(digest)[:12]
}
