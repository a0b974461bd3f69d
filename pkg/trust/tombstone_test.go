package trust_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/trust"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const buried = "0197b5a0-0000-7000-8000-000000000001"

func tombstoneSigner(t *testing.T, dir string) *trust.Signer {
	t.Helper()
	a, err := trust.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := trust.OpenSigner(a.SignerDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestATombstoneHoldsForWhatItSaysAndNothingElse(t *testing.T) {
	t.Parallel()
	s, other := tombstoneSigner(t, t.TempDir()), tombstoneSigner(t, t.TempDir())
	good, err := s.Tombstone(buried, "main", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := trust.CheckTombstone(good, s.TombstoneKey()); err != nil {
		t.Fatalf("a good one: %v", err)
	}
	for name, c := range map[string]struct {
		spoil func(*serverv1.Tombstone)
		key   string
		want  fault.Kind
	}{
		"another server": {
			func(t *serverv1.Tombstone) { t.ServerId = "0197b5a0-0000-7000-8000-000000000002" },
			s.TombstoneKey(), fault.Denied,
		},
		"another cell": {func(t *serverv1.Tombstone) { t.Cell = "east" }, s.TombstoneKey(), fault.Denied},
		"another time": {
			func(t *serverv1.Tombstone) { t.SignedAt = timestamppb.New(time.Unix(1, 0)) },
			s.TombstoneKey(), fault.Denied,
		},
		"no signature":      {func(t *serverv1.Tombstone) { t.Signature = nil }, s.TombstoneKey(), fault.Denied},
		"a bit turned":      {func(t *serverv1.Tombstone) { t.Signature[0] ^= 1 }, s.TombstoneKey(), fault.Denied},
		"another fleet's":   {func(*serverv1.Tombstone) {}, other.TombstoneKey(), fault.Denied},
		"no key to try":     {func(*serverv1.Tombstone) {}, "", fault.Invalid},
		"a key of no sense": {func(*serverv1.Tombstone) {}, "AAAA", fault.Invalid},
		"moved line breaks": {
			func(t *serverv1.Tombstone) { t.ServerId, t.Cell = t.ServerId+"\nmain", "" },
			s.TombstoneKey(), fault.Denied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			spoilt := proto.CloneOf(good)
			c.spoil(spoilt)
			if err := trust.CheckTombstone(spoilt, c.key); !fault.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestTheTombstoneKeyStaysAndIsMissedWhenItIsLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := tombstoneSigner(t, dir).TombstoneKey()
	if again := tombstoneSigner(t, dir).TombstoneKey(); first == "" || again != first {
		t.Errorf("the key was %q and is %q", first, again)
	}
	public, err := os.ReadFile(filepath.Join(dir, "authority.json"))
	if err != nil || !bytes.Contains(public, []byte(first)) {
		t.Errorf("the public part does not name the key: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "keys", "tombstone.seed")); err != nil {
		t.Fatal(err)
	}
	if _, err := trust.OpenAuthority(dir); err == nil {
		t.Error("a new key took the place of the lost one")
	}
}
