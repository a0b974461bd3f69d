package release

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kit is what one package holds, besides its licence and the release keys.
type kit struct {
	name, summary string
	programs      []string // in /usr/bin
	parts         []string // programs that only a unit starts, in /usr/lib/garrison
	units         []string // of deploy/systemd
	users         string   // of deploy/systemd, a file of sysusers
	cli           bool     // with manual pages and completions
}

var packages = []kit{
	{
		name:     "garrisond",
		summary:  "Garrison's control plane: the bus and the services that manage a fleet's agents",
		programs: []string{"garrisond"},
		parts:    []string{"registry", "image-catalog", "task-dispatcher", "access", "gateway"},
		units:    []string{"garrisond.service", "garrison@.service"},
		users:    "garrison.sysusers",
	},
	{
		name:     "garrison-executor",
		summary:  "Garrison's executor: installs, upgrades and watches the agents of a server",
		programs: []string{"executor"},
		units:    []string{"garrison-executor.service"},
	},
	{
		name:     "garrison",
		summary:  "Garrison's command line",
		programs: []string{"garrison"},
		cli:      true,
	},
}

// entry is one file of a package. Everything belongs to root.
type entry struct {
	path   string // where it is installed
	from   string // the file that holds it; empty for a directory
	mode   fs.FileMode
	config bool   // an administrator may change it, and no program does
	only   string // deb or rpm; empty for both
}

// entries returns the files of a package. It writes those that have no file yet below the stage.
func (m *maker) entries(k kit, arch string) (all []entry, err error) {
	add := func(path, from string, mode fs.FileMode) {
		all = append(all, entry{path: path, from: from, mode: mode})
	}
	write := func(path string, data []byte) {
		name := filepath.Join("files", k.name, path)
		err = errors.Join(err, m.put(name, data))
		add(path, filepath.Join(m.stage, name), 0o644)
	}
	for _, p := range k.programs {
		add("/usr/bin/"+p, m.binary(p, arch), 0o755)
	}
	for _, p := range k.parts {
		add("/usr/lib/garrison/"+p, m.binary(p, arch), 0o755)
	}
	add("/usr/share/doc/"+k.name+"/copyright", filepath.Join(m.Root, "LICENSE"), 0o644)
	if len(m.Keys) > 0 {
		write("/usr/share/garrison/release-keys/"+k.name, []byte(strings.Join(m.Keys, "\n")+"\n"))
	}
	for _, u := range k.units {
		text, readErr := os.ReadFile(filepath.Join(m.Root, "deploy/systemd", u))
		err = errors.Join(err, readErr)
		write("/usr/lib/systemd/system/"+u, installed(text))
	}
	if k.users != "" {
		add("/usr/lib/sysusers.d/"+k.name+".conf", filepath.Join(m.Root, "deploy/systemd", k.users), 0o644)
	}
	if len(k.units) > 0 {
		files := filepath.Join(m.Root, "deploy/release/files", k.name)
		add("/usr/lib/systemd/system-preset/50-"+k.name+".preset", files+".preset", 0o644)
		add("/etc/needrestart/conf.d/"+k.name+".conf", files+".needrestart.conf", 0o644)
		all[len(all)-1].config = true
	}
	if k.cli && err == nil {
		err = m.addDocuments(add, write)
		zsh := filepath.Join(m.stage, "completion.zsh")
		all = append(all,
			entry{path: "/usr/share/zsh/vendor-completions/_garrison", from: zsh, mode: 0o644, only: "deb"},
			entry{path: "/usr/share/zsh/site-functions/_garrison", from: zsh, mode: 0o644, only: "rpm"})
	}
	for _, dir := range []string{"/usr/lib/garrison", "/usr/share/garrison", "/usr/share/garrison/release-keys",
		"/usr/share/doc/" + k.name} { // a removal leaves none of them
		if slices.ContainsFunc(all, func(e entry) bool { return strings.HasPrefix(e.path, dir+"/") }) {
			add(dir, "", 0o755)
		}
	}
	if k.users != "" {
		add("/etc/garrison", "", 0o755) // for settings
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return all, err
}

// addDocuments adds the manual pages and the completions.
func (m *maker) addDocuments(add func(path, from string, mode fs.FileMode), write func(string, []byte)) error {
	pages, err := os.ReadDir(m.pages())
	if err != nil {
		return err
	}
	for _, p := range pages {
		text, err := os.ReadFile(filepath.Join(m.pages(), p.Name()))
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if _, err := z.Write(text); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		write("/usr/share/man/man1/"+p.Name()+".gz", packed.Bytes())
	}
	add("/usr/share/bash-completion/completions/garrison", filepath.Join(m.stage, "completion.bash"), 0o644)
	add("/usr/share/fish/vendor_completions.d/garrison.fish", filepath.Join(m.stage, "completion.fish"), 0o644)
	return nil
}

// installed returns a unit as a package installs it: without the comment that explains how to install it by hand, and
// with the paths of packages.
func installed(unit []byte) []byte {
	if at := bytes.Index(unit, []byte("[Unit]")); at > 0 {
		unit = unit[at:]
	}
	unit = bytes.ReplaceAll(unit, []byte("/usr/local/bin/%i"), []byte("/usr/lib/garrison/%i"))
	return bytes.ReplaceAll(unit, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
}

// script writes a script of a package, and returns its path.
func (m *maker) script(k kit, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(m.Root, "deploy/release/scripts", name))
	if err != nil {
		return "", err
	}
	var units, links []string
	for _, u := range k.units {
		pattern := strings.Replace(u, "@.", "@*.", 1)
		units = append(units, fmt.Sprintf("'%s'", pattern))
		links = append(links, "/etc/systemd/system/*.wants/"+pattern)
	}
	filled := strings.NewReplacer("@PACKAGE@", k.name, "@UNITS@", strings.Join(units, " "),
		"@LINKS@", strings.Join(links, " ")).Replace(string(text))
	path := filepath.Join("scripts", k.name+"."+name)
	return filepath.Join(m.stage, path), m.put(path, []byte(filled))
}
