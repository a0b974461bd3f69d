package engine

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// What is here and no instance of the inventory explains is told, and never touched. Only
// what is below this root, runs from it, or bears the name of its services is looked at:
// what another executor on this machine has is that one's to tell.

// maxTraces is how many are told at most; the rest are counted.
const maxTraces = 64

// trace is what there is of an agent. It must be explained by the inventory or is told.
type trace struct {
	*reportv1.Found
	name string // the agent's, also where that is no name that an agent may have
	slot string // of a service: the start of its image's id
}

// traces looks at the disk, the processes and the services.
func (e *Engine) traces(whole wholeFunc) []trace {
	slots, err := e.cfg.Supervisor.Slots()
	if err != nil {
		e.cfg.Log.Warn().Err(err).Msg("services not looked at") // their processes are
	}
	var services []trace
	recorded := map[int]bool{}
	for _, s := range slots {
		if s.Name == "" {
			recorded[s.Pid] = true
			continue
		}
		t := newTrace(s.Agent, serverv1.Trace_TRACE_UNIT, s.Name, "systemd has "+s.Name+", which is not in the inventory")
		t.slot = s.Image
		services = append(services, t)
	}
	processes := slices.DeleteFunc(e.processes(recorded), func(p trace) bool {
		return slices.ContainsFunc(services, func(s trace) bool { return s.name == p.name && strings.HasPrefix(plainID(p.Image), s.slot) })
	})
	return slices.Concat(e.links(whole), processes, services)
}

func newTrace(name string, kind serverv1.Trace, path, reason string) trace {
	t := trace{&reportv1.Found{Trace: kind, Path: printable(path), Health: instancev1.Health_HEALTH_BAD, Reason: reason}, name, ""}
	if ident.CheckName("agent", name) == nil {
		t.Agent = name
	}
	return t
}

// printable makes a text fit for a report: a name on the disk may hold anything.
func printable(s string) string { return strings.ToValidUTF8(s, "?") }

// explains says whether the inventory knows what left a trace.
func (in inventoryNow) explains(t trace) bool {
	if in.open[t.name] {
		return true
	}
	for _, i := range in.instances {
		switch t.Trace {
		case serverv1.Trace_TRACE_LINK:
			if i.Agent == t.name {
				return true
			}
		case serverv1.Trace_TRACE_PROCESS:
			if bytes.Equal(i.Image.Digest(), t.Image.GetDigest()) {
				return true
			}
		case serverv1.Trace_TRACE_UNIT:
			if i.Agent == t.name && strings.HasPrefix(plainID(i.Image.Ref()), t.slot) {
				return true
			}
		}
	}
	return false
}

func plainID(r *imagev1.Ref) string { return strings.ReplaceAll(r.GetId(), "-", "") }

// links looks for the link of each agent's directory.
func (e *Engine) links(whole wholeFunc) (out []trace) {
	entries, _ := os.ReadDir(e.cfg.Root.Agents()) // a directory that is not there has no agents
	for _, d := range entries {
		path := e.cfg.Root.Current(d.Name())
		target, err := os.Readlink(path)
		if err != nil || strings.HasPrefix(d.Name(), layout.TemporaryPrefix) {
			continue // also what a removal set aside
		}
		t := newTrace(d.Name(), serverv1.Trace_TRACE_LINK, e.cfg.Root.Relative(path), "its link is not in the inventory")
		if digest := e.linked(d.Name()); digest != nil {
			mark, err := whole(digest)
			t.Image = e.ref(mark, digest)
			if err != nil {
				t.Reason += ", and " + printable(oneLine(err))
			}
		} else {
			e.lookOutside(t, target)
		}
		out = append(out, t)
	}
	return out
}

// lookOutside finds out what a link is about that leads to no image of this root. It leads
// to another executor's when a sealed image is there that bears the name of its directory.
func (e *Engine) lookOutside(t trace, target string) {
	if !filepath.IsAbs(target) {
		target = filepath.Join(e.cfg.Root.Agent(t.name), target)
	}
	t.Reason += ", and leads to " + printable(target)
	images, name := filepath.Split(filepath.Clean(target))
	root := layout.Root(filepath.Dir(filepath.Clean(images)))
	digest, err := hex.DecodeString(name)
	if err != nil || len(digest) != digestBytes || root.Images() != filepath.Clean(images) || root == e.cfg.Root {
		return
	}
	if mark, err := imagedir.New(root).Mark(digest); err == nil {
		t.OtherRoot, t.Image = printable(string(root)), e.ref(mark, digest)
	}
}

// ref names an image by its mark; what that does not say is left out.
func (e *Engine) ref(m imagedir.Mark, digest []byte) *imagev1.Ref {
	return &imagev1.Ref{Id: m.ImageID, Version: m.Version, Digest: digest}
}

// processes looks for processes that run from an image of ours, and gives one trace for
// each image. A script's process executes its interpreter: it is only known when it is
// recorded that it was started as an agent.
func (e *Engine) processes(recorded map[int]bool) []trace {
	return e.processesBy(func(pid int) []byte {
		digest := e.executes(pid)
		if digest == nil && recorded[pid] {
			digest = e.imageOf(pid)
		}
		return digest
	})
}

// processesBy looks for processes for which imageOf returns the digest of an image of ours.
func (e *Engine) processesBy(imageOf func(pid int) []byte) (out []trace) {
	entries, _ := os.ReadDir("/proc")
	for _, d := range entries {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		digest := imageOf(pid)
		if digest == nil {
			continue
		}
		p := e.process(pid, digest)
		same := slices.IndexFunc(out, func(t trace) bool { return t.Path == p.Path && t.OtherServerId == p.OtherServerId })
		if same < 0 {
			out = append(out, p)
		} else {
			out[same].Pid = min(out[same].Pid, p.Pid)
		}
	}
	return out
}

// process says whose a process is. Another server's executor started it when its
// environment says so.
func (e *Engine) process(pid int, digest []byte) trace {
	mark, err := e.images.Mark(digest)
	if err != nil { // it was deleted under the process
		mark = imagedir.Mark{Agent: environment(pid, "GARRISON_AGENT"), Version: printable(environment(pid, "GARRISON_VERSION"))}
	}
	p := newTrace(mark.Agent, serverv1.Trace_TRACE_PROCESS, e.cfg.Root.Relative(e.cfg.Root.Image(digest)), "it runs, and is not in the inventory")
	p.Image, p.Pid = e.ref(mark, digest), uint32(pid)
	if server := environment(pid, "GARRISON_SERVER"); ident.IsUUID(server) && server != e.cfg.ServerID {
		p.OtherServerId = server
		p.Reason = "it runs, and the executor of server " + server + " started it"
	}
	return p
}

// listed gives a report of traces, in order, and no more than fit.
func listed(traces []trace) *reportv1.AgentsReport {
	slices.SortFunc(traces, func(a, b trace) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.Trace, b.Trace), strings.Compare(a.Path, b.Path))
	})
	r := &reportv1.AgentsReport{More: uint32(max(0, len(traces)-maxTraces))}
	for _, t := range traces[:min(len(traces), maxTraces)] {
		r.Agents = append(r.Agents, t.Found)
	}
	return r
}

// noteBeside says of each instance that is well that something runs beside it.
func (e *Engine) noteBeside(agents, traces []*reportv1.Found) {
	for _, t := range traces {
		n := slices.IndexFunc(agents, func(f *reportv1.Found) bool { return f.Agent == t.Agent && f.Health == instancev1.Health_HEALTH_GOOD })
		if n < 0 || t.Trace == serverv1.Trace_TRACE_LINK {
			continue
		}
		what := t.Path
		if t.Trace == serverv1.Trace_TRACE_PROCESS {
			what = "version " + e.versionOf(t.GetImage().GetDigest())
		}
		agents[n].Health, agents[n].Reason = instancev1.Health_HEALTH_BAD, what+" runs beside it, and nothing here keeps that"
	}
}

// otherTraces says whether two reports tell of other traces, whichever processes left them.
func otherTraces(a, b *reportv1.AgentsReport) bool {
	return a.GetMore() != b.GetMore() || !slices.Equal(marks(a), marks(b))
}

func marks(r *reportv1.AgentsReport) (out []string) {
	for _, f := range r.GetAgents() {
		if f.Trace != serverv1.Trace_TRACE_UNSPECIFIED {
			out = append(out, strings.Join([]string{f.Agent, f.Trace.String(), f.Path, f.OtherServerId, hexOf(f.GetImage().GetDigest())}, "\x00"))
		}
	}
	return out
}
