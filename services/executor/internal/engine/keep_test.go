package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// versions gives the versions of an agent whose files are on the disk, sorted.
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
	return func(c *Config) { c.Keep = Keep{versions, bytes} }
}

func TestTheWayBackToAKeptVersionNeedsNothingToBeFetched(t *testing.T) {
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
	outcome(t, r.do(b.want(b.image("cn-agent", "3.0.0", "ready"))), taskv1.State_STATE_UNDONE) // this one would have to be
	r.good("cn-agent", "1.0.0")
	b.wantVersions("1.0.0", "2.0.0")
}

func TestSoManyVersionsAreKeptAndTheOldestGoesFirst(t *testing.T) {
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
	r.eventually("a start keeps to a policy that says less", func() bool { return slices.Equal(b.versions(), []string{"3.0.0", "4.0.0"}) })
	r.good("cn-agent", "4.0.0")
}

func TestKeptVersionsTakeSoManyBytesAtMost(t *testing.T) {
	b := newBench(t)
	size := b.image("cn-agent", "1.0.0", "ready").GetBlob().GetUnpackedSizeBytes()
	r := b.run(keeping(9, 2*size+size/2))
	for n := range 5 {
		r.do(b.want(b.image("cn-agent", strconv.Itoa(n+1)+".0.0", "ready")))
	}
	b.wantVersions("3.0.0", "4.0.0", "5.0.0")
}

func TestARemovalTakesTheKeptVersionsAndNamesThem(t *testing.T) {
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

func TestAKeptVersionThatWasDamagedIsFetchedAnew(t *testing.T) {
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
	b := newBench(t)
	size := b.image("cn-agent", "1.0.0", "ready").GetBlob().GetUnpackedSizeBytes()
	b.smallDisk(strconv.FormatUint(spareBytes+8<<20+5*size, 10)) // the journal, the old one, the new one with its blob, and little more
	r := b.run(keeping(9, 1<<30))
	for n := range 8 {
		outcome(t, r.do(b.want(b.image("cn-agent", strconv.Itoa(n+1)+".0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	}
	if have := b.versions(); len(have) < 2 || len(have) > 6 || have[len(have)-1] != "8.0.0" || have[0] == "1.0.0" {
		t.Errorf("on the disk: %v", have)
	}
}

func TestWhatIsBeyondThePolicy(t *testing.T) {
	at := time.Unix(1700000000, 0)
	kept := func(name string, age int, mb uint64) journal.Kept {
		return journal.Kept{
			Image: journal.Manifest{Manifest: &imagev1.Manifest{Version: name, Blob: &imagev1.Blob{Digest: []byte(name), UnpackedSizeBytes: mb << 20}}},
			Since: at.Add(-time.Duration(age) * time.Hour),
		}
	}
	all := map[string][]journal.Kept{
		"a": {kept("a2", 1, 10), kept("a1", 5, 10)},
		"b": {kept("b3", 2, 10), kept("b2", 3, 10), kept("b1", 4, 10)},
	}
	for _, c := range []struct {
		name   string
		keep   Keep
		needed string
		want   []string
	}{
		{"nothing is kept", Keep{}, "", []string{"a1", "a2", "b1", "b2", "b3"}},
		{"everything fits", Keep{9, 50 << 20}, "", nil},
		{"one of each", Keep{1, 50 << 20}, "", []string{"a1", "b1", "b2"}},
		{"the oldest of all goes first", Keep{9, 49 << 20}, "", []string{"a1"}},
		{"by bytes", Keep{9, 20 << 20}, "", []string{"a1", "b1", "b2"}},
		{"what runs costs nothing", Keep{9, 20 << 20}, "b3", []string{"a1", "b1"}},
		{"no bytes", Keep{9, 0}, "", []string{"a1", "a2", "b1", "b2", "b3"}},
		{"fewer than none", Keep{-1, 50 << 20}, "", []string{"a1", "a2", "b1", "b2", "b3"}},
	} {
		gone := c.keep.beyond(all, func(d []byte) bool { return string(d) == c.needed })
		var names []string
		for _, g := range gone {
			names = append(names, g.Image.GetVersion())
		}
		slices.Sort(names)
		if diff := cmp.Diff(c.want, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
