package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// versions returns the versions of an agent whose files are on the disk, sorted.
func (b *workbench) versions() []string {
	b.t.Helper()
	var out []string
	entries, _ := os.ReadDir(b.root.Images())
	for _, d := range entries {
		v, err := os.ReadFile(filepath.Join(b.root.Images(), d.Name(), "VERSION"))
		if err != nil {
			v = []byte(d.Name()) // just being deleted
		}
		out = append(out, string(v))
	}
	slices.Sort(out)
	return out
}

func (b *workbench) wantVersions(want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.versions()); diff != "" {
		b.t.Errorf("on the disk (-want +got):\n%s", diff)
	}
}

// away is a Fetcher whose bus is away.
type away struct{}

func (away) Fetch(context.Context, *imagev1.Blob, func(uint64)) error {
	return errors.New("the bus is away")
}

func keeping(versions int, bytes uint64) func(*Config) {
	return func(c *Config) { c.Keep = Keep{Versions: versions, Bytes: bytes} }
}

func TestTheWayBackToAKeptVersionNeedsNothingToBeFetched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(keeping(1, 1<<30))
	one := b.image("cn-agent", "1.0.0", "ready")
	r.do(b.want(one))
	r.do(b.want(b.image("cn-agent", "2.0.0", "ready")))
	b.wantVersions("1.0.0", "2.0.0")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = b.run(keeping(1, 1<<30), func(c *Config) { c.Fetcher = away{} })
	b.wantVersions("1.0.0", "2.0.0") // a start sweeps none of them
	outcome(t, r.do(b.want(one)), taskv1.State_STATE_SUCCEEDED)
	r.good("cn-agent", "1.0.0")
	b.wantVersions("1.0.0", "2.0.0")
	// this one would have to be
	outcome(t, r.do(b.want(b.image("cn-agent", "3.0.0", "ready"))), taskv1.State_STATE_UNDONE)
	r.good("cn-agent", "1.0.0")
	b.wantVersions("1.0.0", "2.0.0")
}

func TestSoManyVersionsAreKeptAndTheOldestGoesFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(keeping(2, 1<<30))
	for n := range 4 {
		r.do(b.want(b.image("cn-agent", strconv.Itoa(n+1)+".0.0", "ready")))
	}
	b.wantVersions("2.0.0", "3.0.0", "4.0.0")
	r.do(b.want(b.image("cn-agent", "5.0.0", "crash"))) // what is undone is not kept
	b.wantVersions("2.0.0", "3.0.0", "4.0.0")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = b.run(keeping(1, 1<<30))
	r.eventually("a start keeps to a policy that says less",
		func() bool { return slices.Equal(b.versions(), []string{"3.0.0", "4.0.0"}) })
	r.good("cn-agent", "4.0.0")
}

func TestKeptVersionsTakeSoManyBytesAtMost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	size := b.image("cn-agent", "1.0.0", "ready").GetBlob().GetUnpackedSizeBytes()
	r := b.run(keeping(9, 2*size+size/2))
	for n := range 5 {
		r.do(b.want(b.image("cn-agent", strconv.Itoa(n+1)+".0.0", "ready")))
	}
	b.wantVersions("3.0.0", "4.0.0", "5.0.0")
}

func TestARemovalTakesTheKeptVersionsAndNamesThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(keeping(3, 1<<30))
	for n := range 3 {
		r.do(b.want(b.image("cn-agent", strconv.Itoa(n+1)+".0.0", "ready")))
	}
	b.wantVersions("1.0.0", "2.0.0", "3.0.0")
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
	if left, pids := b.left(), b.pids(); len(left)+len(pids) != 0 {
		t.Errorf("left: %v, processes %v", left, pids)
	}
	images := 0
	for _, rep := range r.reports() {
		for _, p := range rep.GetReceipt().GetRemoved() {
			if filepath.Dir(p.GetPath()) == "images" {
				images++
			}
		}
	}
	if images != 3 {
		t.Errorf("the receipt names %d images, want 3", images)
	}
}

func TestKeptVersionsAreReportedAndDeletedOnRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(keeping(2, 1<<30))
	var size uint64
	for n := range 3 {
		m := b.image("cn-agent", strconv.Itoa(n+1)+".0.0", "ready")
		size = m.GetBlob().GetUnpackedSizeBytes()
		r.do(b.want(m))
	}
	ways := func() (out []string) {
		for _, k := range r.the("cn-agent").GetKept() {
			out = append(out, fmt.Sprint(k.GetImage().GetVersion(), " ", k.GetBytes() == size, " ", k.GetChangesLeft()))
		}
		return out
	}
	if diff := cmp.Diff([]string{"2.0.0 true 2", "1.0.0 true 1"}, ways()); diff != "" {
		t.Errorf("kept, newest first, with their size and the changes left (-want +got):\n%s", diff)
	}
	b.doc.Generation++
	b.doc.Requests = []*desiredv1.Request{{TaskId: "purge", PurgeKept: true}}
	outcome(t, r.do("purge"), taskv1.State_STATE_SUCCEEDED)
	b.wantVersions("3.0.0")
	if have := ways(); len(have) > 0 {
		t.Errorf("reported as kept after the purge: %v", have)
	}
	r.good("cn-agent", "3.0.0")
}

func TestAKeptVersionThatWasDamagedIsFetchedAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(keeping(1, 1<<30))
	one := b.image("cn-agent", "1.0.0", "ready")
	r.do(b.want(one))
	r.do(b.want(b.image("cn-agent", "2.0.0", "ready")))
	dir := b.root.Image(one.GetBlob().GetDigest())
	if err := errors.Join(os.Chmod(dir, 0o755), os.Remove(filepath.Join(dir, "VERSION"))); err != nil {
		t.Fatal(err)
	}
	outcome(t, r.do(b.want(one)), taskv1.State_STATE_SUCCEEDED)
	r.good("cn-agent", "1.0.0")
	b.wantVersions("1.0.0", "2.0.0")
}

func TestKeptVersionsAreGivenUpForAChangeThatNeedsTheRoom(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	size := b.image("cn-agent", "1.0.0", "ready").GetBlob().GetUnpackedSizeBytes()
	// the journal, the old one, the new one with its blob, and little more
	b.smallDisk(strconv.FormatUint(spareBytes+8<<20+5*size, 10))
	r := b.run(keeping(9, 1<<30))
	for n := range 8 {
		outcome(t, r.do(b.want(b.image("cn-agent", strconv.Itoa(n+1)+".0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	}
	if have := b.versions(); len(have) < 2 || len(have) > 6 || have[len(have)-1] != "8.0.0" || have[0] == "1.0.0" {
		t.Errorf("on the disk: %v", have)
	}
}
