package image

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/render"
)

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
func (r *runRecipe) configure(f *manifest.Faults, out *imagev1.Run) {
	for _, c := range r.Configs {
		out.Configs = append(out.Configs, &imagev1.Config{Template: c.Template, Path: c.Path, Mode: uint32(c.Mode)})
	}
	var ok bool
	if out.Reload, ok = reloads[r.Reload]; !ok {
		f.Add("run.reload", code.BadRecipe, "%s: run.reload %q is not known (want restart or signal)", RecipeName,
			r.Reload)
	}
	out.Rehearsal = r.Rehearsal.exec()
}

// checkTemplates adds the faults of templates that are missing from the directory or are not valid.
func checkTemplates(f *manifest.Faults, root *os.Root, m *imagev1.Manifest) {
	for n, c := range m.GetRun().GetConfigs() {
		field := fmt.Sprintf("run.configs[%d]", n)
		text, err := readTemplate(root, c.Template)
		if err != nil {
			f.Add(field, code.BadTemplate, "template %q %s", c.Template, unreadable(err))
		} else if _, err := render.Parse(c.Template, text); err != nil {
			f.Add(field, code.BadTemplate, "%v", err)
		}
	}
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
