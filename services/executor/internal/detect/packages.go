package detect

import (
	"context"
	"errors"
	"io/fs"
	"maps"
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

// rpm finds the packages of the RPM package manager. It asks the program rpm: the database has had three formats,
// and the program reads the one of its machine.
type rpm struct{}

// Name implements Detector.
func (rpm) Name() string { return "rpm" }

// One line for each file, and one that ends a package.
const (
	rpmFiles = "[%{FILENAMES}\n]"
	rpmEnd   = "= %{NAME} %{VERSION}-%{RELEASE} %{ARCH}\n"
	rpmOwner = "%{NAME}\n"
)

// maxOwners is how many paths one question about owners names.
const maxOwners = 500

func (s *Scan) rpm() string { return s.find("usr/bin/rpm", "bin/rpm") }

// Detect implements Detector.
func (rpm) Detect(ctx context.Context, s *Scan) ([]*serverv1.Candidate, error) {
	program := s.rpm()
	if program == "" {
		return nil, nil
	}
	printed, err := output(ctx, 8*maxOutput, program, "-qa", "--queryformat", rpmFiles+rpmEnd)
	return parsePackages(string(printed), s.All), err
}

// parsePackages reads what rpm printed of each package. Without all only those with a unit are of interest, and
// not those of the base set.
func parsePackages(text string, all bool) (out []*serverv1.Candidate) {
	var files []string
	n, serves := 0, false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		rest, end := strings.CutPrefix(line, "= ")
		if !end {
			if isProgram(line) && len(files) < maxFiles {
				files = append(files, line)
			}
			n, serves = n+1, serves || isUnitFile(line)
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) == 3 && (all || serves && !isBasePackage(fields[0])) {
			out = append(out, &serverv1.Candidate{
				Id: ID("rpm", fields[0]+"."+fields[2]), Kind: serverv1.CandidateKind_CANDIDATE_KIND_PACKAGE,
				Name: fields[0], Version: fields[1], Files: slices.Clone(files), FilesMore: uint32(n - len(files)),
			})
		}
		files, n, serves = nil, 0, false
	}
	return out
}

// rpmMark is a file that no package owns. It stands behind each path of a question: the line about it ends those about
// the path, of which there is one for each package that owns it, and none where the path is gone.
const rpmMark = "/proc/self/stat"

// owners returns the packages that own paths, by path; of two packages that own one, the first.
func (rpm) owners(ctx context.Context, s *Scan, paths map[string]bool) map[string]string {
	program := s.rpm()
	if program == "" {
		return nil
	}
	asked := slices.Sorted(maps.Keys(paths))
	asked = asked[:min(len(asked), maxOwners)]
	args := []string{"-qf", "--queryformat", rpmOwner}
	for _, p := range asked {
		args = append(args, p, rpmMark)
	}
	printed, _ := output(ctx, maxOutput, program, args...)
	out, n := map[string]string{}, 0
	for line := range strings.Lines(string(printed)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case n == len(asked):
			return nil // more lines than paths: not what rpm prints
		case strings.Contains(line, rpmMark):
			n++
		case line != "" && !strings.Contains(line, " ") && out[asked[n]] == "": // otherwise it says that none owns it
			out[asked[n]] = line
		}
	}
	if n != len(asked) {
		return nil // it was interrupted
	}
	return out
}
