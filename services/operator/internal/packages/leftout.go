package packages

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/listing"
)

// arches are the architectures of packages and of programs, by their names there.
var arches = map[string]string{
	"amd64": "amd64", "x86_64": "amd64", "EM_X86_64": "amd64", "arm64": "arm64", "aarch64": "arm64",
	"EM_AARCH64": "arm64", "i386": "386", "i586": "386", "i686": "386", "EM_386": "386", "armhf": "arm", "armel": "arm",
	"armv7hl": "arm", "EM_ARM": "arm", "ppc64el": "ppc64le", "ppc64le": "ppc64le", "EM_PPC64": "ppc64le",
	"riscv64": "riscv64", "EM_RISCV": "riscv64", "s390x": "s390x", "EM_S390": "s390x", "loong64": "loong64",
	"loongarch64": "loong64", "EM_LOONGARCH": "loong64",
}

// platform adds the platform to the recipe: that of the package, or of the program that is run.
func (c *conversion) platform(recipe map[string]any) {
	if c.format == "" {
		if run, ok := recipe["run"].(map[string]any); ok {
			c.arch = c.root.machine(run["command"].(string))
		}
	}
	recipe["os"] = "linux"
	if arch := arches[c.arch]; arch != "" {
		recipe["arch"] = arch
		return
	}
	if c.arch != "" && c.arch != "all" && c.arch != "noarch" {
		recipe["arch"] = c.arch // refused by its name
		return
	}
	if c.Build.Arch == "" {
		c.note(code.NotMapped, "architecture", "nothing of the file names one; the image is for that of this machine, "+
			runtime.GOARCH+": --arch")
	}
}

// tools are programs that the scripts of packages use to change a server.
var tools = []string{
	"adduser", "useradd", "addgroup", "groupadd", "setcap", "chown", "chmod", "mkdir", "ldconfig",
	"update-alternatives",
	"dpkg-statoverride", "systemctl", "deb-systemd-helper", "update-rc.d", "debconf", "semanage", "sysctl",
}

// leftOut notes what of the package has no place in an image.
func (c *conversion) leftOut() {
	for _, s := range c.scripts {
		why := "scripts of a package are never run"
		var used []string
		for _, tool := range tools {
			if slices.Contains(strings.FieldsFunc(s.text, func(r rune) bool { return !isWord(r) }), tool) {
				used = append(used, tool)
			}
		}
		if len(used) > 0 {
			why += "; it uses " + strings.Join(used, ", ")
		}
		c.note(code.NotRun, s.name, why)
	}
	if len(c.needs) > 0 {
		c.note(code.NeedsPackage, strings.Join(c.needs, ", "), "no package is installed: the server must have them")
		if all := strings.Join(c.needs, ", "); len(all) < 1000 {
			c.tags["package.needs"] = all
		}
	}
	for _, other := range c.conflicts {
		c.note(code.NotMapped, "conflict with "+other, "only agents conflict; that package is not looked for")
	}
	for _, name := range slices.Sorted(maps.Keys(c.configs)) {
		if !c.named[name] && !hasAbove(c.named, name) {
			c.note(code.NotMapped, name, "it is rendered to ${config}/"+name+", and run.args does not name it; the "+
				"agent reads it there only if it is: --recipe")
		}
	}
	if c.content == nil {
		return
	}
	for _, l := range c.content.LeftOut {
		c.note(code.NotKept, l.Name, l.Why)
	}
	if c.format != "" {
		c.rights()
		c.data()
	}
}

// hasAbove reports whether a set has a directory of a file.
func hasAbove(set map[string]bool, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if set[dir] {
			return true
		}
	}
	return false
}

// rights notes the owners and modes of files that the image does not keep.
func (c *conversion) rights() {
	owned, private, n := map[string]string{}, "", 0
	for _, name := range c.content.Sorted() {
		f := c.content.Files[name]
		if owner := cmp.Or(c.owners[name], f.Owner); owner != "" {
			owned[owner] = cmp.Or(owned[owner], name)
		}
		if f.Mode&0o044 != 0o044 && !c.configs[name] {
			private, n = cmp.Or(private, name), n+1
		}
		if f.Capabilities || slices.Contains(c.capable, name) {
			c.note(code.NotKept, name, "it has file capabilities; name them in run.sandbox.capabilities")
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(owned)) {
		c.note(code.NotKept, "owner "+owner, "all files are of the executor's user, such as "+owned[owner])
	}
	if n > 0 {
		c.note(code.NotKept, "modes", listing.Plural(n, "file")+" that not all may read are readable, such as "+private)
	}
}

// shown are directories that hold nothing that an agent reads.
var shown = []string{
	"usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/share/licenses", "usr/share/bash-completion",
	"usr/share/info", "usr/share/locale", "usr/lib/systemd", "lib/systemd", "usr/lib/.build-id", "usr/lib/sysusers.d",
	"usr/lib/tmpfiles.d", "usr/share/zsh", "usr/share/fish",
}

// data notes the directories in which the agent may look for its files outside of the image.
func (c *conversion) data() {
	_ = fs.WalkDir(c.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.IsDir() {
			return nil
		}
		top, rest, _ := strings.Cut(name, "/")
		switch depth := strings.Count(rest, "/"); {
		case slices.Contains(shown, name):
			return fs.SkipDir
		case c.named[name] || rest == "":
			return nil
		case (top == "var" || top == "srv") && depth == 1:
			c.note(code.NotMapped, name, "no directory is made at /"+name+"; ${state} is one that outlives versions")
			return fs.SkipDir
		case top == "opt" || top == "usr" && depth == 1:
			c.note(code.NotMapped, name, "it lies in ${image}/"+name+", and an agent that looks at /"+name+" does not "+
				"find it")
			return fs.SkipDir
		}
		return nil
	})
}

func isWord(r rune) bool {
	return r == '-' || r == '.' || r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}
