package detect

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// dpkg finds the packages of Debian's package manager in its own files.
type dpkg struct{}

// The limits of dpkg's files.
const (
	maxStatus   = 64 << 20
	maxListFile = 16 << 20
	maxPackages = 20_000
)

// Name implements Detector.
func (dpkg) Name() string { return "dpkg" }

var baseSections = []string{"libs", "oldlibs", "doc", "libdevel", "perl", "python", "localization", "fonts"}

// debian is one installed package, as dpkg's status file shows it.
type debian struct{ name, version, arch, priority, section, essential string }

// base reports whether a package is part of every machine, or a library or documentation.
func (d debian) base() bool {
	switch d.priority {
	case "required", "important", "standard":
		return true
	}
	section := d.section[strings.LastIndexByte(d.section, '/')+1:]
	return d.essential == "yes" || isBasePackage(d.name) ||
		slices.Contains(baseSections, section)
}

// Detect implements Detector.
func (dpkg) Detect(ctx context.Context, s *Scan) (out []*serverv1.Candidate, err error) {
	files, err := s.below("var/lib/dpkg")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = files.Close() }()
	installed, err := readStatus(ctx, files)
	for _, d := range installed {
		if !s.All && d.base() {
			continue
		}
		c := &serverv1.Candidate{
			Id: ID("dpkg", d.name), Kind: serverv1.CandidateKind_CANDIDATE_KIND_PACKAGE,
			Name: d.name, Version: d.version,
		}
		n, serves := 0, false
		readErr := filesOf(ctx, files, d, func(name string) {
			n++
			if isProgram(name) && len(c.Files) < maxFiles {
				c.Files = append(c.Files, name)
			}
			serves = serves || isUnitFile(name)
		})
		c.FilesMore = uint32(n - len(c.Files))
		if serves || s.All {
			out, err = append(out, c), errors.Join(err, readErr)
		}
	}
	return out, err
}

// readStatus returns the packages that are installed.
func readStatus(ctx context.Context, files tree) (out []debian, err error) {
	fields := map[string]string{}
	end := func() {
		if strings.HasSuffix(fields["Status"], " installed") && len(out) < maxPackages {
			out = append(out, debian{
				fields["Package"], fields["Version"], fields["Architecture"], fields["Priority"], fields["Section"],
				fields["Essential"],
			})
		}
		clear(fields)
	}
	err = files.lines(ctx, "status", maxStatus, func(line string) {
		if line == "" {
			end()
		} else if key, value, ok := strings.Cut(line, ": "); ok && line[0] != ' ' && line[0] != '\t' {
			fields[key] = value
		}
	})
	end()
	return out, err
}

// filesOf calls each for the files of a package; directories that only lead to others are not among them.
func filesOf(ctx context.Context, files tree, d debian, each func(string)) error {
	last := ""
	line := func(name string) {
		if last != "" && !strings.HasPrefix(name, last+"/") {
			each(last)
		}
		last = name
	}
	err := files.lines(ctx, "info/"+d.name+".list", maxListFile, line)
	if errors.Is(err, fs.ErrNotExist) {
		err = files.lines(ctx, "info/"+d.name+":"+d.arch+".list", maxListFile, line)
	}
	if last != "" {
		each(last)
	}
	return err
}

// owners returns the packages that own paths, by path.
func (dpkg) owners(ctx context.Context, s *Scan, paths map[string]bool) map[string]string {
	files, err := s.below("var/lib/dpkg")
	if err != nil {
		return nil
	}
	defer func() { _ = files.Close() }()
	lists, _ := files.list("info", 4*maxPackages)
	aliases := map[string]string{} // /lib may be a link to /usr/lib, and the lists name either
	for p := range paths {
		aliases[p] = p
		if rest, ok := strings.CutPrefix(p, "/usr"); ok {
			aliases[rest] = p
		} else {
			aliases["/usr"+p] = p
		}
	}
	out := map[string]string{}
	for _, name := range lists {
		if path.Ext(name) != ".list" || ctx.Err() != nil {
			continue
		}
		owner, _, _ := strings.Cut(strings.TrimSuffix(name, ".list"), ":")
		_ = files.lines(ctx, "info/"+name, maxListFile, func(line string) { // what cannot be read owns nothing
			if p, ok := aliases[line]; ok {
				out[p] = owner
			}
		})
	}
	return out
}

// own notes of candidates the package that owns the file that path returns, and its version.
func (s *Scan) own(ctx context.Context, found []*serverv1.Candidate, path func(*serverv1.Candidate) string) {
	paths := map[string]bool{}
	for _, c := range found {
		if p := path(c); strings.HasPrefix(p, "/") {
			paths[p] = true
		}
	}
	if len(paths) == 0 {
		return
	}
	owners := dpkg{}.owners(ctx, s, paths)
	if len(owners) == 0 {
		owners = rpm{}.owners(ctx, s, paths)
	}
	versions := map[string]string{}
	if files, err := s.below("var/lib/dpkg"); err == nil && len(owners) > 0 {
		installed, _ := readStatus(ctx, files)
		for _, d := range installed {
			versions[d.name] = d.version
		}
		_ = files.Close()
	}
	for _, c := range found {
		c.Package = owners[path(c)]
		c.Version = versions[c.Package]
	}
}
