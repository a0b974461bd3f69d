package detect

import (
	"context"
	"slices"
	"strings"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

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

// owners returns the packages that own paths, by path.
func (rpm) owners(ctx context.Context, s *Scan, paths map[string]bool) map[string]string {
	program := s.rpm()
	if program == "" {
		return nil
	}
	var asked []string
	for p := range paths {
		asked = append(asked, p)
	}
	slices.Sort(asked)
	asked = asked[:min(len(asked), maxOwners)]
	printed, _ := output(ctx, maxOutput, program, append([]string{"-qf", "--queryformat", rpmOwner}, asked...)...)
	lines := strings.Split(strings.TrimSuffix(string(printed), "\n"), "\n")
	out := map[string]string{}
	if len(lines) != len(asked) {
		return out // a file of several packages has several lines: then nothing is certain
	}
	for n, p := range asked {
		if !strings.Contains(lines[n], " ") { // otherwise it says that none owns it
			out[p] = lines[n]
		}
	}
	return out
}
