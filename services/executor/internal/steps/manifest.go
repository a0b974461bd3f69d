package steps

import (
	"path"
	"path/filepath"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

const (
	maxChunkSize = 1 << 20
	maxConfigs   = 64 // configuration files of an image
)

// checkManifest refuses a manifest whose fields contradict each other.
func checkManifest(agent string, m *imagev1.Manifest) error {
	b := m.GetBlob()
	switch {
	case ident.CheckName("agent", agent) != nil || m.GetAgent() != agent:
		return refuse(code.InvalidImage, "the image is of agent %q, not of %q", m.GetAgent(), agent)
	case !ident.IsUUID(m.GetId()):
		return refuse(code.InvalidImage, "the image's id %q is not a UUID", m.GetId())
	case len(b.GetDigest()) != layout.DigestBytes:
		return refuse(code.InvalidImage, "the image's digest has %d bytes", len(b.GetDigest()))
	case b.GetChunkSizeBytes() == 0 || b.GetChunkSizeBytes() > maxChunkSize:
		return refuse(code.InvalidImage, "the image's chunks have %d bytes", b.GetChunkSizeBytes())
	}
	size := uint64(b.GetChunkSizeBytes())
	if uint64(len(b.GetChunkDigests())) != (b.GetSizeBytes()+size-1)/size {
		return refuse(code.InvalidImage, "the image has %d chunks, which is not its size", len(b.GetChunkDigests()))
	}
	if m.GetKind() == agentv1.Kind_KIND_SELF && len(m.GetRun().GetConfigs()) > 0 {
		return refuse(code.InvalidImage, "the executor's own image has a configuration, which it does not read")
	}
	if err := checkCommands(m); err != nil {
		return err
	}
	return checkConfigs(m.GetRun())
}

func checkCommands(m *imagev1.Manifest) error {
	run := m.GetRun()
	if runs(m.GetKind()) && !inImage(run.GetCommand()) {
		return refuse(code.InvalidImage, "the command %q is not a path within the image", run.GetCommand())
	}
	if x := run.GetReady().GetExec(); x != nil && !inImage(x.GetCommand()) {
		return refuse(code.InvalidImage, "the probe's command %q is not a path within the image", x.GetCommand())
	}
	if x := run.GetRehearsal(); x != nil && !inImage(x.GetCommand()) {
		return refuse(code.InvalidImage, "the rehearsal's command %q is not a path within the image", x.GetCommand())
	}
	return nil
}

func runs(k agentv1.Kind) bool {
	return k == agentv1.Kind_KIND_DAEMON || k == agentv1.Kind_KIND_ONESHOT || k == agentv1.Kind_KIND_SELF
}

// checkConfigs refuses files that leave their directory or collide.
func checkConfigs(run *imagev1.Run) error {
	if n := len(run.GetConfigs()); n > maxConfigs {
		return refuse(code.InvalidImage, "the image has %d configuration files; %d are the most", n, maxConfigs)
	}
	isFile := map[string]bool{} // by path; false for the directories of files
	for _, c := range run.GetConfigs() {
		path := filepath.Clean(c.GetPath())
		if !inImage(c.GetTemplate()) || !inImage(c.GetPath()) || c.GetMode() > 0o777 ||
			c.GetMode() != 0 && c.GetMode()&0o400 == 0 {
			return refuse(code.InvalidImage,
				"the configuration file %q from %q with mode %o is not one within the image's own", c.GetPath(),
				c.GetTemplate(), c.GetMode())
		}
		if _, taken := isFile[path]; taken {
			return refuse(code.InvalidImage, "the configuration file %q is listed twice", path)
		}
		isFile[path] = true
		for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
			if isFile[dir] {
				return refuse(code.InvalidImage, "the configuration file %q is a directory too", dir)
			}
			isFile[dir] = false
		}
	}
	return nil
}

// inImage reports whether a path stays within the image, variables aside.
func inImage(command string) bool {
	return command != "" && filepath.IsLocal(command) && path.Clean(command) != "."
}
