package image

import (
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/render"
)

// maxConfigs bounds the rendered files of a manifest.
const maxConfigs = 64

// configRecipe describes a file rendered from a template.
type configRecipe struct {
	Template string `json:"template"`
	Path     string `json:"path"`
	Mode     mode   `json:"mode"`
}

var reloads = map[string]imagev1.Reload{
	"":        imagev1.Reload_RELOAD_UNSPECIFIED,
	"restart": imagev1.Reload_RELOAD_RESTART,
	"signal":  imagev1.Reload_RELOAD_SIGNAL,
}

// configure copies the configuration of the recipe into the manifest.
func (r *runRecipe) configure(out *imagev1.Run) error {
	for _, c := range r.Configs {
		out.Configs = append(out.Configs, &imagev1.Config{Template: c.Template, Path: c.Path, Mode: uint32(c.Mode)})
	}
	var ok bool
	if out.Reload, ok = reloads[r.Reload]; !ok {
		return refuse(code.BadRecipe, "%s: run.reload %q is not known (want restart or signal)", RecipeName, r.Reload)
	}
	out.Rehearsal = r.Rehearsal.exec()
	return nil
}

// checkConfigs checks the reload, the rehearsal, and the paths of the rendered files: each stays inside its
// directory, and no two conflict.
func checkConfigs(m *imagev1.Manifest) error {
	r := m.GetRun()
	if _, ok := imagev1.Reload_name[int32(r.GetReload())]; !ok {
		return refuse(code.BadManifest, "run.reload %d is not known (want restart or signal)", r.GetReload())
	}
	if err := checkExec("run.rehearsal", r.GetRehearsal()); err != nil {
		return err
	}
	if k := m.GetKind(); (k == agentv1.Kind_KIND_SELF || k == agentv1.Kind_KIND_EXTERNAL) && len(r.GetConfigs()) > 0 {
		return refuse(code.BadManifest, "run.configs is there, but kinds self and external have no configuration")
	}
	if len(r.GetConfigs()) > maxConfigs {
		return refuse(code.BadManifest, "run.configs has %d files, want at most %d", len(r.GetConfigs()), maxConfigs)
	}
	taken := map[string]bool{} // true for a file, false for a directory
	for _, c := range r.GetConfigs() {
		if err := checkConfig(c, taken); err != nil {
			return err
		}
	}
	return nil
}

func checkConfig(c *imagev1.Config, taken map[string]bool) error {
	for name, p := range map[string]string{"template": c.GetTemplate(), "path": c.GetPath()} {
		if !inside(p) || len(p) > maxText {
			return refuse(code.Outside, "run.configs has the %s %q, want a relative path that stays inside", name, p)
		}
	}
	if c.Mode != 0 && (c.Mode > 0o777 || c.Mode&0o400 == 0) {
		return refuse(code.BadManifest,
			"run.configs sets mode %o on %s; the owner must be able to read it, such as 0640", c.Mode, c.Path)
	}
	p := path.Clean(c.Path)
	if _, there := taken[p]; there {
		return refuse(code.BadManifest, "run.configs has %s twice, as a file or as a directory", p)
	}
	taken[p] = true
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if taken[dir] {
			return refuse(code.BadManifest, "run.configs has %s in %s, which is a file", p, dir)
		}
		taken[dir] = false
	}
	return nil
}

// checkTemplates refuses a template that is missing from the directory or is not valid.
func checkTemplates(root *os.Root, m *imagev1.Manifest) error {
	for _, c := range m.GetRun().GetConfigs() {
		text, err := readTemplate(root, c.Template)
		if err != nil {
			return refuse(code.BadTemplate, "template %q %s", c.Template, unreadable(err))
		}
		if _, err := render.Parse(c.Template, text); err != nil {
			return refuse(code.BadTemplate, "%v", err)
		}
	}
	return nil
}

// readTemplate returns the text of a template, cut off behind the longest that is valid.
func readTemplate(root *os.Root, name string) (string, error) {
	f, err := openRegular(root, filepath.FromSlash(path.Clean(name)))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, render.MaxTemplate+1))
	return string(text), err
}

// metadata is a variable whose value is merged for each instance.
var metadata = regexp.MustCompile(`^\$\{metadata\.[A-Za-z][A-Za-z0-9_]*\}$`)
