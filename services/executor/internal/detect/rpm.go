package detect

import (
	"context"
	"maps"
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
