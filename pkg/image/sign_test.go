package image_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/seal"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

func newKey(t *testing.T) (public string, seed []byte) {
	t.Helper()
	public, seed, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return public, seed
}

func TestAnImageIsTrustedForOneOfTheKeysThatSignedIt(t *testing.T) {
	t.Parallel()
	old, oldSeed := newKey(t)
	fresh, freshSeed := newKey(t)
	stranger, _ := newKey(t)
	_, path := build(t, image.BuildOptions{Dir: agentTree(t), Key: oldSeed})
	if _, err := image.SignFile(t.Context(), path, freshSeed); err != nil {
		t.Fatal(err)
	}
	if _, err := image.SignFile(t.Context(), path, append(oldSeed, '\n')); err != nil { // as an editor leaves it
		t.Fatal(err)
	}
	f := open(t, path)
	if err := f.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := f.Manifest()
	if n := len(m.Seal.Signatures); n != 2 {
		t.Fatalf("%d signatures", n)
	}
	for _, keys := range [][]string{{old}, {fresh}, {stranger, old}} {
		if err := seal.Trust(m, keys); err != nil {
			t.Errorf("with %d keys: %v", len(keys), err)
		}
	}
	wantCode(t, seal.Trust(m, []string{stranger}), code.UnknownSigner)
	wantCode(t, seal.Trust(m, nil), code.UnknownSigner)
	m.Seal = nil
	wantCode(t, seal.Trust(m, []string{old}), code.UnsignedImage)
}

func TestWhatWasChangedAfterItWasSignedIsNotTrusted(t *testing.T) {
	t.Parallel()
	public, seed := newKey(t)
	other, otherSeed := newKey(t)
	signed, _ := build(t, image.BuildOptions{Dir: agentTree(t), Key: seed})
	foreign, _ := build(t, image.BuildOptions{Dir: agentTree(t), Key: otherSeed})
	for name, change := range map[string]func(*imagev1.Manifest){
		"an argument":     func(m *imagev1.Manifest) { m.Run.Args = append(m.Run.Args, "--evil") },
		"the environment": func(m *imagev1.Manifest) { m.Run.Env = map[string]string{"LD_PRELOAD": "x"} },
		"the user": func(m *imagev1.Manifest) {
			m.Run.Sandbox = nil
			m.Run.Limits = &imagev1.Limits{Tasks: 7}
		},
		"the content": func(m *imagev1.Manifest) {
			m.Blob.Digest = bytes.Repeat([]byte{1}, 32)
			m.Id = manifest.ID(m)
		},
		"the version":   func(m *imagev1.Manifest) { m.Version = "9.9.9"; m.Id = manifest.ID(m) },
		"the statement": func(m *imagev1.Manifest) { m.Seal.Statement[3] ^= 1 },
		"the signature": func(m *imagev1.Manifest) { m.Seal.Signatures[0].Signature[5] ^= 1 },
		"whose it is":   func(m *imagev1.Manifest) { m.Seal.Signatures[0].Key = other },
		"another's seal": func(m *imagev1.Manifest) {
			m.Seal = proto.CloneOf(foreign.Seal)
			m.Seal.Signatures[0].Key = public
		},
		"one signature, twice": func(m *imagev1.Manifest) {
			m.Seal.Signatures = append(m.Seal.Signatures, m.Seal.Signatures[0])
		},
		"no signatures": func(m *imagev1.Manifest) { m.Seal.Signatures = nil },
		"an added bad one": func(m *imagev1.Manifest) {
			m.Seal.Signatures = append(m.Seal.Signatures, &imagev1.Signature{Key: other})
		},
		"a statement of noise":       func(m *imagev1.Manifest) { m.Seal.Statement = []byte("noise") },
		"an empty statement":         func(m *imagev1.Manifest) { m.Seal.Statement = nil },
		"a field that is not signed": func(m *imagev1.Manifest) { m.Conflicts = append(m.Conflicts, "other") },
	} {
		t.Run(name, func(t *testing.T) {
			m := proto.CloneOf(signed)
			change(m)
			wantCode(t, seal.Trust(m, []string{public}), code.BadSignature)
			wantCode(t, manifest.Check(m), code.BadSignature)
		})
	}
	// The digests of chunks are not signed: the digest of the whole is.
	m := proto.CloneOf(signed)
	m.Blob.ChunkDigests[0][0] ^= 1
	if err := seal.Trust(m, []string{public}); err != nil {
		t.Error(err)
	}
}

func TestAKeyThatIsNoneSignsNothing(t *testing.T) {
	t.Parallel()
	m, path := build(t, image.BuildOptions{Dir: agentTree(t)})
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// a person's, as the documentation of nkeys has it
	user := []byte("SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY")
	for _, seed := range [][]byte{nil, []byte("SA"), user} {
		_, err := image.SignFile(t.Context(), path, seed)
		wantCode(t, err, code.BadImageKey)
		wantCode(t, seal.Sign(m, seed), code.BadImageKey)
	}
	_, err = image.Build(t.Context(),
		image.BuildOptions{Dir: agentTree(t), Out: filepath.Join(t.TempDir(), "x.gimg"), Key: user})
	wantCode(t, err, code.BadImageKey)
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed: %v", err)
	}
	var k seal.Keys
	if k.Set("nonsense") == nil || k.Set("") == nil || len(k) > 0 {
		t.Errorf("keys %v", k)
	}
}
