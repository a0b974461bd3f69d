// Package detect finds what runs or is installed on a server and is not Garrison's: candidates for
// adoption. It changes nothing.
//
// A Detector is one type with a name. The built-in ones read systemd's units, processes that listen,
// the packages of dpkg and rpm, and Triton's agents; programs in detectors.d add others (docs/adopt.md
// of the executor has their contract).
//
// Guarantees:
//
//  1. A scan ends within Within, and each detector within its share; one that fails or hangs costs
//     only its own rows, and the report says so.
//  2. A report has at most MaxBytes of candidates, and each detector at most MaxEach; what is left out
//     is counted.
//  3. The environment of a process is never read. Arguments are cut, and values behind names such as
//     --password are masked.
//  4. Files are opened below the directory that a detector reads, never outside of it through a
//     symbolic link, and only to a limited size.
//  5. Two scans of an unchanged server list the same candidates under the same ids.
package detect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bounds"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

const (
	// Within bounds a scan. Detectors work at the same time.
	Within = 30 * time.Second
	// endWithin is how long detectors may take to return after that.
	endWithin = 3 * time.Second
	// mostAtWork is how many detectors may be at work, those of earlier scans that were left behind with them.
	mostAtWork = 64
	// MaxEach is how many candidates one detector lists.
	MaxEach = 1000
	// MaxBytes is how many bytes of candidates a report lists.
	MaxBytes = 192 << 10
	// maxFiles is how many files of a package are named.
	maxFiles = 10
)

// Detector finds candidates of one kind.
type Detector interface {
	// Name is how it is named in candidates and on the command line.
	Name() string
	// Detect returns the candidates, and an error that may come beside some of them. It returns soon
	// after ctx is done.
	Detect(ctx context.Context, s *Scan) ([]*serverv1.Candidate, error)
}

// Config is what detectors look at.
type Config struct {
	Root     string             // of the file system; empty means /
	Home     string             // the executor's root; what runs from it is Garrison's
	Programs string             // the directory of further detectors; empty means none
	Ours     func(pid int) bool // reports whether a process is Garrison's; may be nil
	Units    string             // the prefix of the names of Garrison's own units
}

// Scan is one look at a server, shared by its detectors.
type Scan struct {
	Config
	All bool // the base set too

	once      sync.Once
	processes map[int]*process
	failed    error
}

// Builtin returns the built-in detectors in the order in which their candidates get room in a report.
func Builtin() []Detector { return []Detector{processes{}, units{}, apm{}, dpkg{}, rpm{}} }

// Run scans a server with every detector that was asked for.
func Run(ctx context.Context, c Config, asked *serverv1.Scan) (*reportv1.CandidatesReport, error) {
	c.Root = cmp.Or(c.Root, "/")
	detectors, broken := programs(c.Programs)
	detectors, err := choose(append(Builtin(), detectors...), asked.GetDetectors())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	r := &reportv1.CandidatesReport{Detections: broken}
	merge(r, gather(ctx, &Scan{Config: c, All: asked.GetAll()}, detectors))
	return r, nil
}

// result is what one detector found.
type result struct {
	candidates []*serverv1.Candidate
	detection  *serverv1.Detection
}

// atWork counts the detectors that have not returned.
var atWork atomic.Int32

// gather lets detectors look at the same time, and returns what each found. One that does not return soon after ctx is
// done is left behind, with the reason: a read of /proc, and a program that the kernel does not end, may wait for a
// file system that never answers.
func gather(ctx context.Context, s *Scan, detectors []Detector) []result {
	type numbered struct {
		n int
		result
	}
	ended := make(chan numbered, len(detectors)) // so that one that is left behind ends
	found := make([]result, len(detectors))
	left := 0
	for n, d := range detectors {
		found[n].detection = &serverv1.Detection{
			Detector: d.Name(), Reason: fmt.Sprintf("did not end within %s: left behind", Within+endWithin),
		}
		if atWork.Add(1) > mostAtWork {
			atWork.Add(-1)
			found[n].detection.Reason = fmt.Sprintf("%d detectors have not ended: not begun", mostAtWork)
			continue
		}
		left++
		go func() {
			defer atWork.Add(-1)
			ended <- numbered{n, look(ctx, s, d)}
		}()
	}
	done, late := ctx.Done(), (<-chan time.Time)(nil)
	for left > 0 {
		select {
		case r := <-ended:
			found[r.n] = r.result
			left--
		case <-done:
			done, late = nil, time.After(endWithin)
		case <-late:
			return found
		}
	}
	return found
}

func look(ctx context.Context, s *Scan, d Detector) result {
	began := time.Now()
	found, err := d.Detect(ctx, s)
	r := result{detection: &serverv1.Detection{Detector: d.Name()}}
	if err != nil {
		r.detection.Reason = clean(strings.ReplaceAll(err.Error(), "\n", "; "), bounds.Text)
	}
	for _, c := range found {
		c.Detector = d.Name()
		tidy(c)
	}
	slices.SortFunc(found, byID)
	found = slices.CompactFunc(found, func(a, b *serverv1.Candidate) bool { return a.Id == b.Id })
	r.detection.More = uint32(max(0, len(found)-MaxEach))
	r.candidates = found[:min(len(found), MaxEach)]
	r.detection.TookMs = uint32(time.Since(began).Milliseconds())
	return r
}

func byID(a, b *serverv1.Candidate) int { return strings.Compare(a.Id, b.Id) }

// merge puts results into a report, each candidate once. A later detector that names the same process or
// unit adds what the first one did not know.
func merge(r *reportv1.CandidatesReport, found []result) {
	known := map[string]*serverv1.Candidate{}
	room := MaxBytes
	for _, f := range found {
		for _, c := range f.candidates {
			if first := known[c.Id]; first != nil {
				room -= enrich(first, c)
				continue
			}
			if room -= proto.Size(c) + 4; room < 0 {
				f.detection.More++
				continue
			}
			known[c.Id] = c
			r.Candidates = append(r.Candidates, c)
			f.detection.Listed++
		}
		r.Detections = append(r.Detections, f.detection)
	}
	slices.SortFunc(r.Candidates, byID)
	slices.SortFunc(r.Detections, func(a, b *serverv1.Detection) int { return strings.Compare(a.Detector, b.Detector) })
}

// enrich adds to a candidate what another detector knows of it, and returns by how much it grew.
func enrich(c, more *serverv1.Candidate) int {
	before := proto.Size(c)
	c.Version, c.Path = cmp.Or(c.Version, more.Version), cmp.Or(c.Path, more.Path)
	c.State, c.Package = cmp.Or(c.State, more.State), cmp.Or(c.Package, more.Package)
	if len(c.Files) == 0 {
		c.Files, c.FilesMore = more.Files, more.FilesMore
	}
	return proto.Size(c) - before
}

// choose returns the detectors with the names that were asked for; every one without names.
func choose(all []Detector, names []string) ([]Detector, error) {
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, d := range all {
		known = append(known, d.Name())
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fault.Refusef(fault.Invalid, code.UnknownDetector, "no detector %q on this server; it has %s",
				name, strings.Join(known, ", ")).Try("garrison server refresh SERVER --scan --detector " +
				nearest.Name(name, slices.Values(known)))
		}
	}
	return slices.DeleteFunc(all, func(d Detector) bool { return !slices.Contains(names, d.Name()) }), nil
}

// Listed returns what a scan's task records of a list: its length and its digest.
func Listed(list []*serverv1.Candidate) (*taskv1.Listed, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&reportv1.CandidatesReport{Candidates: list})
	sum := sha256.Sum256(data)
	return &taskv1.Listed{Candidates: uint32(len(list)), Sha256: sum[:]}, err
}

// ID returns the id of a candidate that no process and no unit is.
func ID(detector, name string) string { return detector + "/" + name }

// UnitID returns the id of a unit of systemd.
func UnitID(unit string) string { return ID("unit", unit) }

// ProcessID returns the id of a process by its id and start time in clock ticks.
func ProcessID(pid int, start uint64) string { return fmt.Sprintf("process/%d-%d", pid, start) }
