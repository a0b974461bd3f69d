package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
)

// The codes of refusals before anything was touched.
const (
	CodeInvalidImage    = "INVALID_IMAGE"
	CodeWrongPlatform   = "WRONG_PLATFORM"
	CodeUnsupportedKind = "UNSUPPORTED_KIND"
	CodeNoSpace         = "NO_SPACE"
	codeTimedOut        = "TIMED_OUT"
)

const (
	digestBytes  = 32
	maxChunkSize = 1 << 20
)

// check finds everything that can be known to go wrong before anything is touched.
func (c *change) check(context.Context) error {
	if err := c.checkKnown(); err != nil {
		return err
	}
	m := c.rec.To.Manifest
	if err := checkManifest(c.rec.Agent, m); err != nil {
		return err
	}
	if err := c.checkTrust(); err != nil {
		return err
	}
	here := sysinfo.Platform()
	if p := m.GetPlatform(); p.GetOs() != here.Os || p.GetArch() != here.Arch {
		return refuse(CodeWrongPlatform, "the image is for %s/%s; this server is %s/%s", p.GetOs(), p.GetArch(), here.Os, here.Arch)
	}
	switch m.GetKind() {
	case agentv1.Kind_KIND_DAEMON, agentv1.Kind_KIND_ONESHOT, agentv1.Kind_KIND_FILES, agentv1.Kind_KIND_SELF:
	default:
		return refuse(CodeUnsupportedKind, "an agent of %s is not run by this executor; it runs daemon, oneshot, files and self", m.GetKind())
	}
	if err := c.checkSelf(); err != nil {
		return err
	}
	if err := c.checkConfiguration(); err != nil {
		return err
	}
	if err := c.cfg.Supervisor.Check(m.GetRun()); err != nil {
		return err
	}
	if err := c.checkNeeds(); err != nil {
		return err
	}
	if _, err := os.Lstat(c.cfg.Root.Agent(c.rec.Agent)); err == nil && c.rec.From == nil {
		c.rec.Existed = true
	}
	return c.openSockets()
}

// checkTrust asks whether somebody vouches for the image, unless it is the one that is
// installed: a configuration or a repair of that brings nothing new.
func (c *change) checkTrust() error {
	if c.rec.From != nil && proto.Equal(c.rec.From.Image.Manifest, c.rec.To.Manifest) {
		return nil
	}
	return c.cfg.Trust(c.rec.To.Manifest)
}

func checkManifest(agent string, m *imagev1.Manifest) error {
	b, run := m.GetBlob(), m.GetRun()
	runs := m.GetKind() == agentv1.Kind_KIND_DAEMON || m.GetKind() == agentv1.Kind_KIND_ONESHOT || m.GetKind() == agentv1.Kind_KIND_SELF
	switch {
	case ident.CheckName("agent", agent) != nil || m.GetAgent() != agent:
		return refuse(CodeInvalidImage, "the image is of agent %q, not of %q", m.GetAgent(), agent)
	case !ident.IsUUID(m.GetId()):
		return refuse(CodeInvalidImage, "the image's id %q is not a UUID", m.GetId())
	case len(b.GetDigest()) != digestBytes:
		return refuse(CodeInvalidImage, "the image's digest has %d bytes", len(b.GetDigest()))
	case b.GetChunkSizeBytes() == 0 || b.GetChunkSizeBytes() > maxChunkSize:
		return refuse(CodeInvalidImage, "the image's chunks have %d bytes", b.GetChunkSizeBytes())
	case uint64(len(b.GetChunkDigests())) != (b.GetSizeBytes()+uint64(b.GetChunkSizeBytes())-1)/uint64(b.GetChunkSizeBytes()):
		return refuse(CodeInvalidImage, "the image has %d chunks, which is not its size", len(b.GetChunkDigests()))
	case runs && !localCommand(run.GetCommand()):
		return refuse(CodeInvalidImage, "the command %q is not a path within the image", run.GetCommand())
	case run.GetReady().GetExec() != nil && !localCommand(run.GetReady().GetExec().GetCommand()):
		return refuse(CodeInvalidImage, "the probe's command %q is not a path within the image", run.GetReady().GetExec().GetCommand())
	case run.GetRehearsal() != nil && !localCommand(run.GetRehearsal().GetCommand()):
		return refuse(CodeInvalidImage, "the rehearsal's command %q is not a path within the image", run.GetRehearsal().GetCommand())
	}
	if m.GetKind() == agentv1.Kind_KIND_SELF && len(run.GetConfigs()) > 0 {
		return refuse(CodeInvalidImage, "the executor's own image has a configuration, which it does not read")
	}
	return checkConfigs(run)
}

// localCommand says whether a command stays within the image, variables aside.
func localCommand(command string) bool {
	return command != "" && filepath.IsLocal(command) && path.Clean(command) != "."
}

// fetch brings the chunks that are missing.
func (c *change) fetch(ctx context.Context) error {
	b := c.rec.To.GetBlob()
	if c.prepared {
		return nil
	}
	c.fetched(0)
	return c.cfg.Fetcher.Fetch(ctx, b, func(done uint64) {
		c.fetched(done)
		c.progress(done, b.GetSizeBytes())
	})
}

// verify compares the whole with its digest.
func (c *change) verify(ctx context.Context) error {
	if c.prepared {
		return nil
	}
	return c.images.Verify(ctx, c.rec.To.GetBlob())
}

// stage unpacks and seals; the chunks are not needed after that.
func (c *change) stage(ctx context.Context) error {
	if err := c.images.Stage(ctx, c.rec.To.Manifest, c.space.Use); err != nil {
		return err
	}
	c.space.ShrinkTo(switchBytes)
	defer c.freeBlob()
	return os.RemoveAll(c.cfg.Root.CacheOf(c.rec.To.Digest()))
}

func (e *Engine) program(m *imagev1.Manifest, command string) string {
	return programIn(e.cfg.Root, m, command)
}

func programIn(root layout.Root, m *imagev1.Manifest, command string) string {
	return filepath.Join(root.Image(m.GetBlob().GetDigest()), filepath.Clean("/"+command))
}

// sweep deletes images and chunks that nothing needs any more. What cannot be deleted
// now is found by the next sweep; a change does not fail for it.
func (c *change) sweep(context.Context) error {
	if err := errors.Join(c.sweepConfigs(), c.applyKeep(c.rec)); err != nil {
		c.log.Warn().Err(err).Msg("configurations and kept versions not swept")
	}
	for _, digest := range append([][]byte{c.rec.To.Digest(), c.fromDigest()}, c.rec.Unkept...) {
		if len(digest) != digestBytes || c.fetchTimedOut() {
			continue
		}
		removed, err := c.images.Remove(digest, func() (bool, error) { return c.needed(digest, c.rec) })
		if err != nil {
			c.log.Warn().Err(err).Msg("image not swept")
		}
		if (removed || err != nil) && c.rec.To.Manifest == nil {
			c.removed(c.cfg.Root.Image(digest), err)
		}
	}
	if err := c.sweepFresh(); err != nil {
		c.log.Warn().Err(err).Msg("copies of images not swept")
	}
	return nil
}

// fetchTimedOut says whether only time was short: then the chunks that came stay for the
// next try, or a slow line would never get to the end. A document that does not ask for them sweeps them.
func (c *change) fetchTimedOut() bool {
	f := c.rec.Failure
	return f != nil && f.Step == taskv1.Step_STEP_FETCH && f.Code == codeTimedOut
}

func (c *change) fromDigest() []byte {
	if c.rec.From == nil {
		return nil
	}
	return c.rec.From.Image.Digest()
}

func hexOf(digest []byte) string { return hex.EncodeToString(digest) }

func refuse(code, format string, args ...any) error {
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: code, Message: strings.ToValidUTF8(fmt.Sprintf(format, args...), "?")})
}
