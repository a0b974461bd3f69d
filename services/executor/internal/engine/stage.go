package engine

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
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
	spareBytes   = 16 << 20 // what must be left on the disk after a change
)

// check finds everything that can be known to go wrong before anything is touched.
func (c *change) check(context.Context) error {
	m := c.rec.To.Manifest
	if err := checkManifest(c.rec.Agent, m); err != nil {
		return err
	}
	here := sysinfo.Platform()
	if p := m.GetPlatform(); p.GetOs() != here.Os || p.GetArch() != here.Arch {
		return refuse(CodeWrongPlatform, "the image is for %s/%s; this server is %s/%s", p.GetOs(), p.GetArch(), here.Os, here.Arch)
	}
	switch m.GetKind() {
	case agentv1.Kind_KIND_DAEMON, agentv1.Kind_KIND_ONESHOT, agentv1.Kind_KIND_FILES:
	default:
		return refuse(CodeUnsupportedKind, "an agent of %s is not run by this executor; it runs daemon, oneshot and files", m.GetKind())
	}
	if _, err := c.fill(c.rec.Agent, m, c.rec.Labels); err != nil {
		return err
	}
	if _, err := os.Lstat(c.cfg.Root.Agent(c.rec.Agent)); err == nil && c.rec.From == nil {
		c.rec.Existed = true
	}
	if err := c.checkSpace(m.GetBlob()); err != nil {
		return err
	}
	return c.openSockets()
}

func checkManifest(agent string, m *imagev1.Manifest) error {
	b, run := m.GetBlob(), m.GetRun()
	runs := m.GetKind() == agentv1.Kind_KIND_DAEMON || m.GetKind() == agentv1.Kind_KIND_ONESHOT
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
	}
	return nil
}

// localCommand says whether a command stays within the image, variables aside.
func localCommand(command string) bool {
	return command != "" && filepath.IsLocal(command) && path.Clean(command) != "."
}

// checkSpace looks whether the blob and what is in it fit beside each other.
func (c *change) checkSpace(b *imagev1.Blob) error {
	if c.images.Sealed(b.GetDigest()) {
		return nil
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(string(c.cfg.Root), &fs); err != nil {
		return fmt.Errorf("look for space: %w", err)
	}
	free := fs.Bavail * uint64(fs.Bsize)
	need := b.GetSizeBytes() + b.GetUnpackedSizeBytes() + spareBytes
	if free < need || need < b.GetUnpackedSizeBytes() {
		return refuse(CodeNoSpace, "the image needs %d bytes; %d are free at %s", need, free, c.cfg.Root)
	}
	return nil
}

// fetch brings the chunks that are missing.
func (c *change) fetch(ctx context.Context) error {
	b := c.rec.To.GetBlob()
	if c.images.Sealed(b.GetDigest()) {
		return nil
	}
	return c.cfg.Fetcher.Fetch(ctx, b, func(done uint64) { c.progress(done, b.GetSizeBytes()) })
}

// verify compares the whole with its digest.
func (c *change) verify(ctx context.Context) error {
	if c.images.Sealed(c.rec.To.Digest()) {
		return nil
	}
	return c.images.Verify(ctx, c.rec.To.GetBlob())
}

// stage unpacks and seals; the chunks are not needed after that.
func (c *change) stage(ctx context.Context) error {
	if err := c.images.Stage(ctx, c.rec.To.Manifest); err != nil {
		return err
	}
	if err := c.checkCommand(); err != nil {
		return err
	}
	return os.RemoveAll(c.cfg.Root.CacheOf(c.rec.To.Digest()))
}

// checkCommand looks whether the program is there before the old one is stopped for it.
func (c *change) checkCommand() error {
	if c.rec.To.GetKind() == agentv1.Kind_KIND_FILES {
		return nil
	}
	run, err := c.fill(c.rec.Agent, c.rec.To.Manifest, c.rec.Labels)
	if err != nil {
		return err
	}
	info, err := os.Stat(c.program(c.rec.To.Manifest, run.Command))
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return refuse(CodeInvalidImage, "the command %q is not a program in the image", run.Command)
	}
	return nil
}

func (e *Engine) program(m *imagev1.Manifest, command string) string {
	return filepath.Join(e.cfg.Root.Image(m.GetBlob().GetDigest()), filepath.Clean("/"+command))
}

// sweep deletes images and chunks that nothing needs any more. What cannot be deleted
// now is found by the next sweep; a change does not fail for it.
func (c *change) sweep(context.Context) error {
	for _, digest := range [][]byte{c.rec.To.Digest(), c.fromDigest()} {
		if len(digest) != digestBytes || c.fetchTimedOut() {
			continue
		}
		removed, err := c.images.Remove(digest, func() (bool, error) { return c.needed(digest, c.rec) })
		if err != nil {
			c.log.Warn().Err(err).Msg("image not swept")
		}
		if removed && c.rec.To.Manifest == nil {
			c.removed(c.cfg.Root.Image(digest), nil)
		}
	}
	return nil
}

// fetchTimedOut says whether only time was short: then the chunks that came stay for the
// next try, or a slow line would never get to the end. The next start sweeps what nobody came back for.
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
