package manifest

import (
	"path"

	"github.com/garrison-fleet/garrison/pkg/code"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// maxConfigs bounds the rendered files of a manifest.
const maxConfigs = 64

// configs looks at the reload, the rehearsal, and the paths of the rendered files: each stays inside its
// directory, and no two conflict.
func (f runFaults) configs(m *imagev1.Manifest) {
	r := m.GetRun()
	if _, ok := imagev1.Reload_name[int32(r.GetReload())]; !ok {
		f.Add("run.reload", code.BadManifest, "run.reload %d is not known (want restart or signal)", r.GetReload())
	}
	f.exec("run.rehearsal", r.GetRehearsal())
	if k := m.GetKind(); (k == agentv1.Kind_KIND_SELF || k == agentv1.Kind_KIND_EXTERNAL) && len(r.GetConfigs()) > 0 {
		f.Add("run.configs", code.BadManifest,
			"run.configs is there, but kinds self and external have no configuration")
	}
	f.tooMany("run.configs", len(r.GetConfigs()), maxConfigs)
	taken := map[string]bool{} // true for a file, false for a directory
	for n, c := range r.GetConfigs() {
		f.config(at("run.configs", n), c, taken)
	}
}

func (f runFaults) config(field string, c *imagev1.Config, taken map[string]bool) {
	for _, p := range [][2]string{{"template", c.GetTemplate()}, {"path", c.GetPath()}} {
		if !inside(p[1]) || len(p[1]) > maxText {
			f.Add(field, code.Outside, "run.configs has the %s %q, want a relative path that stays inside", p[0], p[1])
			return
		}
	}
	if c.Mode != 0 && (c.Mode > 0o777 || c.Mode&0o400 == 0) {
		f.Add(field, code.BadManifest,
			"run.configs sets mode %o on %s; the owner must be able to read it, such as 0640", c.Mode, c.Path)
	}
	p := path.Clean(c.Path)
	if _, there := taken[p]; there {
		f.Add(field, code.BadManifest, "run.configs has %s twice, as a file or as a directory", p)
	}
	taken[p] = true
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if taken[dir] {
			f.Add(field, code.BadManifest, "run.configs has %s in %s, which is a file", p, dir)
			return
		}
		taken[dir] = false
	}
}
