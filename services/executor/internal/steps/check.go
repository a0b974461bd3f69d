package steps

import (
	"bytes"
	"context"
	"maps"
	"os"
	"slices"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	agentnoun "github.com/garrison-fleet/garrison/pkg/noun/agent"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
)

// CheckKnown refuses a change that asks for something that this executor does not know.
type CheckKnown struct{ Version string }

// Do implements Step.
func (s CheckKnown) Do(_ context.Context, r *Run) error {
	if r.Unknown == "" {
		return nil
	}
	return refuse(code.ExecutorTooOld, "executor %s does not know all that the document asks of the agent: %s",
		s.Version, r.Unknown)
}

// CheckImage refuses an image that is not valid, not trusted, or not for this server.
type CheckImage struct {
	Trust func(*imagev1.Manifest) error
}

// Do implements Step.
func (s CheckImage) Do(_ context.Context, r *Run) error {
	if have := r.To.GetAgent(); have != r.Agent {
		return refuse(code.InvalidImage, "the image is of agent %q, not of %q", have, r.Agent)
	}
	if err := manifest.Check(r.To.Manifest); err != nil {
		return err
	}
	// A configuration or a repair of the installed image brings nothing new to trust.
	if r.From == nil || !proto.Equal(r.From.Image.Manifest, r.To.Manifest) {
		if err := s.Trust(r.To.Manifest); err != nil {
			return err
		}
	}
	here := sysinfo.Platform()
	if p := r.To.GetPlatform(); p.GetOs() != here.Os || p.GetArch() != here.Arch {
		return refuse(code.WrongPlatform, "the image is for %s/%s; this server is %s/%s", p.GetOs(), p.GetArch(),
			here.Os, here.Arch)
	}
	return nil
}

// CheckSelf refuses a program of the executor where it cannot be one.
type CheckSelf struct {
	Self    Self // nil when the executor cannot replace itself
	Journal *journal.Journal
}

// Do implements Step.
func (s CheckSelf) Do(_ context.Context, r *Run) error {
	if r.From != nil && r.From.Image.IsSelf() != r.To.IsSelf() {
		return refuse(code.InvalidImage, "the image is of kind %s; what is installed is of kind %s",
			agentnoun.KindWord(r.To.GetKind()), agentnoun.KindWord(r.From.Image.GetKind()))
	}
	if !r.To.IsSelf() {
		return nil
	}
	if s.Self == nil {
		return refuse(code.UnsupportedKind, "this executor is part of another program, and cannot replace itself")
	}
	in, err := s.Journal.Inventory()
	for _, i := range in.Instances {
		if i.Image.IsSelf() && i.Agent != r.Agent {
			return refuse(code.OtherSelf, "agent %s is the executor's program already; there can be one", i.Agent)
		}
	}
	return err
}

// CheckConfiguration checks the metadata and every variable, and finds what is damaged of the
// same image.
type CheckConfiguration struct {
	Root    layout.Root
	Configs agent.Configs
	Whole   func(*change.Instance) bool // looks at every file
}

// Do implements Step.
func (s CheckConfiguration) Do(_ context.Context, r *Run) error {
	if !bytes.Equal(metadata.Digest(r.Metadata), r.ConfigurationDigest) {
		return refuse(code.BadMetadata, "the metadata does not have the digest %x of the document",
			r.ConfigurationDigest)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Metadata)) {
		if _, ok := r.Secrets[name]; secret.IsSealed(r.Metadata[name]) && !ok {
			return refuse(code.SecretMissing, "the document has %q only in its sealed form", name)
		}
	}
	if _, err := s.Configs.Specs.Fill(agent.Coming(r.Record)); err != nil {
		return err
	}
	if _, err := os.Lstat(s.Root.Agent(r.Agent)); err == nil && r.From == nil {
		r.DirExisted = true
	}
	switch {
	case !r.SameImage():
	case !s.Whole(r.From):
		r.Repairs = change.RepairsImage
	case s.Configs.Check(r.From) != nil:
		r.Repairs = change.RepairsConfiguration
	}
	return nil
}

// CheckRoot refuses to change an agent where nothing can be written or its program cannot be started.
type CheckRoot struct{ Root layout.Root }

// Do implements Step.
func (s CheckRoot) Do(_ context.Context, r *Run) error {
	err := s.Root.Usable()
	files := r.To.GetKind() == agentv1.Kind_KIND_FILES && fault.RefusalOf(err).GetCode() == code.RootNoexec
	if err != nil && !files {
		return err
	}
	return layout.Takes(s.Root, r.Agent)
}

// CheckLink refuses to change an agent whose link cannot be made, before anything of it is stopped.
type CheckLink struct{ Root layout.Root }

// Do implements Step.
func (s CheckLink) Do(_ context.Context, r *Run) error {
	if link := s.Root.Current(r.Agent); layout.Blocked(link) {
		return refuse(code.LinkBlocked, "directory %s with files is in the place of the link of %s", link, r.Agent)
	}
	return nil
}

// CheckConfinement refuses limits and sandboxes that the server cannot keep.
type CheckConfinement struct{ Processes *agent.Processes }

// Do implements Step.
func (s CheckConfinement) Do(_ context.Context, r *Run) error {
	return s.Processes.Confines(r.To.GetRun())
}

// OpenSockets refuses a version whose health check would ask another program, and opens what the new version listens
// on. The old version's sockets stay open until the change has ended.
type OpenSockets struct {
	Sockets   *agent.Sockets
	Processes *agent.Processes
}

// Do implements Step.
func (s OpenSockets) Do(ctx context.Context, r *Run) error {
	v := agent.Coming(r.Record)
	if err := s.Processes.CheckPort(ctx, v); err != nil {
		return err
	}
	return s.Sockets.Open(v)
}
