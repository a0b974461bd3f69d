package manifest

import (
	"path/filepath"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

const maxWaitMs = 60 * 60 * 1000 // an hour

func (f *Faults) kind(m *imagev1.Manifest) {
	command := m.GetRun().GetCommand()
	switch m.GetKind() {
	case agentv1.Kind_KIND_DAEMON, agentv1.Kind_KIND_ONESHOT, agentv1.Kind_KIND_SELF:
		if command == "" {
			f.Add("run.command", code.BadManifest, "run.command is missing; kinds daemon, oneshot and self need one")
		}
	case agentv1.Kind_KIND_FILES:
		if command != "" {
			f.Add("run.command", code.BadManifest, "run.command is %q, but kind files runs nothing", command)
		}
	case agentv1.Kind_KIND_EXTERNAL:
		f.Add("kind", code.UnsupportedKind,
			"agents of kind external have no images (want daemon, oneshot, files or self)")
	default:
		f.Add("kind", code.BadManifest, "kind %v is not known (want daemon, oneshot, files or self)", m.GetKind())
	}
}

// runFaults adds the faults of how an agent is run.
type runFaults struct{ *Faults }

func (f runFaults) run(r *imagev1.Run) {
	if r == nil {
		return
	}
	if r.Command != "" && !inside(r.Command) {
		f.Add("run.command", code.Outside, "run.command %q is not a relative path inside the image", r.Command)
	}
	if _, ok := imagev1.Takeover_name[int32(r.Takeover)]; !ok {
		f.Add("run.takeover", code.BadManifest, "run.takeover %d is not known (want restart or overlap)", r.Takeover)
	}
	f.wait("run.stop_timeout", r.StopTimeoutMs)
	f.ready(r.GetReady())
	f.words(r)
}

func (f runFaults) wait(field string, ms uint32) {
	if ms > maxWaitMs {
		f.Add(field, code.BadManifest, "%s is %d ms, want at most an hour", field, ms)
	}
}

// exec looks at a program that runs beside the agent; field is the key that names it.
func (f runFaults) exec(field string, e *imagev1.Exec) {
	if e == nil {
		return
	}
	field += ".command"
	if e.Command == "" {
		f.Add(field, code.BadManifest, "%s is missing", field)
	} else if !inside(e.Command) {
		f.Add(field, code.Outside, "%s %q is not a relative path inside the image", field, e.Command)
	}
}

// inside reports whether a slash-separated path is relative and stays where it starts.
func inside(p string) bool {
	return filepath.IsLocal(p) && filepath.Clean(p) != "." && !strings.ContainsAny(p, "\\\x00")
}
