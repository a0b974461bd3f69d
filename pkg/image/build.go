// Package image makes, reads and checks images: one immutable build of an agent, as a
// manifest and a blob.
//
// A blob is a zstd-compressed tar archive of a directory. An image file (extension
// .gimg) is a tar archive of two entries, manifest.json (protobuf JSON) and blob, so
// that one file carries an image to a site without a network.
//
//	m, err := image.Build(ctx, image.BuildOptions{Dir: "./cn-agent", Out: "cn-agent.gimg", At: time.Now()})
//
//	f, err := image.Open("cn-agent.gimg")
//	defer f.Close()
//	err = f.Verify(ctx)
//
// Guarantees:
//
//  1. Builds of the same directory by the same version of this code have the same blob, byte
//     for byte, and the same id, on any machine and at any time. Only BuildOptions.At shows
//     in the manifest, and the id does not depend on it.
//  2. A file that Build or Write returned from without an error is whole; otherwise
//     nothing new is at its path or beside it, also when the context ended.
//  3. An executor can unpack every blob that Build made: names and symbolic links keep the
//     rules of package archive, and there are no devices.
//  4. A chunk that Chunk returns has the digest in the manifest.
//  5. Every refusal is of kind Invalid and has a code. One of a directory or a manifest lists every fault.
package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/sbom"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Extension is the file name extension of images.
const Extension = ".gimg"

// BuildOptions configure Build.
type BuildOptions struct {
	Dir     string    // the directory, with a garrison.yaml
	Out     string    // the image file; empty means FileName in the current directory
	Version string    // instead of the recipe's, when not empty
	OS      string    // the same
	Arch    string    // the same
	At      time.Time // the time of publication; zero leaves it out of the manifest
	Key     []byte    // the seed of the signing key; empty builds an unsigned image

	SBOM     string      // a file with the list of its components; empty means the one in the directory, or none
	FindSBOM bool        // without one, make it of Parts and of the programs in the directory that Go built
	Parts    []sbom.Part // what is known of the directory otherwise

	// Note takes what is built although it may surprise, a sentence each. It may be nil.
	Note func(string)
}

// FileName returns the usual name of an image's file.
func FileName(m *imagev1.Manifest) string {
	return strings.Join([]string{m.GetAgent(), m.GetVersion(), m.GetPlatform().GetOs(), m.GetPlatform().GetArch()},
		"-") + Extension
}

// Build packs a directory into an image file and returns its manifest. When ctx is done before the file is whole, it
// returns the error of ctx, and leaves nothing behind.
func Build(ctx context.Context, o BuildOptions) (*imagev1.Manifest, error) {
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	defer func() { _ = root.Close() }()
	m, err := prepare(root, o)
	if err != nil {
		return nil, fmt.Errorf("build image of %s: %w", o.Dir, err)
	}
	out := cmp.Or(o.Out, FileName(m))
	if err := outsideOf(o.Dir, out); err != nil {
		return nil, fmt.Errorf("build image of %s: %w", o.Dir, err)
	}
	components, err := o.components(root)
	if err != nil {
		return nil, fmt.Errorf("build image of %s: %w", o.Dir, err)
	}
	if err := buildFile(ctx, root, m, components, out, o); err != nil {
		return nil, fmt.Errorf("build image of %s: %w", o.Dir, err)
	}
	return m, nil
}

// prepare reads the recipe and makes every check that is possible before packing. It refuses all faults at once.
func prepare(root *os.Root, o BuildOptions) (*imagev1.Manifest, error) {
	faults := &manifest.Faults{}
	r, err := readRecipe(faults, root)
	if err != nil {
		return nil, err
	}
	m := r.manifest(faults, o)
	if !o.At.IsZero() {
		m.PublishedAt = timestamppb.New(o.At)
	}
	for _, c := range []struct{ field, command string }{
		{"run.command", m.GetRun().GetCommand()},
		{"run.ready.exec.command", m.GetRun().GetReady().GetExec().GetCommand()},
		{"run.rehearsal.command", m.GetRun().GetRehearsal().GetCommand()},
	} {
		checkCommand(faults, root, m.GetPlatform(), c.field, c.command)
	}
	checkTemplates(faults, root, m)
	return m, faults.Err()
}

// checkCommand adds a command that is missing or does not fit the platform. A command with variables is known only
// on the server.
func checkCommand(f *manifest.Faults, root *os.Root, on *serverv1.Platform, field, command string) {
	if command == "" || strings.Contains(command, "${") {
		return
	}
	info, err := root.Stat(filepath.FromSlash(command))
	switch {
	case err != nil:
		f.Add(field, code.NoCommand, "%s %q %s", field, command, unreadable(err))
	case !info.Mode().IsRegular():
		f.Add(field, code.NoCommand, "%s %q is not a file", field, command)
	case info.Mode()&0o111 == 0:
		f.Add(field, code.NoCommand, "%s %q is not executable (mode %s)", field, command, info.Mode().Perm())
	default:
		checkProgram(f, root, on, field, command)
	}
}

// outsideOf refuses an output inside the directory: it would become part of the next build.
func outsideOf(dir, out string) error {
	dir, err := realPath(dir)
	if err != nil {
		return err
	}
	parent, err := realPath(filepath.Dir(out))
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(dir, parent)
	if err == nil && filepath.IsLocal(rel) {
		return refuse(code.Outside, "%s is inside the directory that is packed; name a file elsewhere", out)
	}
	return nil
}

func realPath(p string) (string, error) {
	p, err := filepath.Abs(p)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(p)
}

// buildFile packs into a temporary blob next to the output, because the manifest comes
// first in the file and needs the digests.
func buildFile(
	ctx context.Context, root *os.Root, m *imagev1.Manifest, components []byte, out string, o BuildOptions,
) error {
	blob, err := os.CreateTemp(filepath.Dir(out), ".garrison-blob-*")
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close(); _ = os.Remove(blob.Name()) }()
	d := newDigester(blob)
	n := newNotes(o.Note)
	n.version(m)
	p, err := pack(ctx, root, components, d,
		func(name string, f *os.File, info os.FileInfo) { n.file(m, name, f, info) })
	if err != nil {
		return err
	}
	if p.entries == 0 {
		return refuse(code.Empty, "the directory has nothing but %s", RecipeName)
	}
	n.end()
	m.Blob = d.blob()
	m.Blob.UnpackedSizeBytes, m.Blob.Entries = p.unpacked, p.entries
	m.Id = manifest.ID(m)
	if len(o.Key) > 0 {
		if err := seal.Sign(m, o.Key); err != nil {
			return err
		}
	}
	if err := manifest.Check(m); err != nil {
		return err
	}
	return Write(ctx, out, m,
		func(_ context.Context, n int) ([]byte, error) { return readChunk(blob, 0, m.Blob, n) })
}

// digester writes a blob and computes its digests on the way.
type digester struct {
	file         *os.File
	whole, chunk hash.Hash
	size         uint64
	inChunk      int
	digests      [][]byte
}

func newDigester(file *os.File) *digester {
	return &digester{file: file, whole: sha256.New(), chunk: sha256.New()}
}

// Write writes p and refuses to go beyond manifest.MaxSize.
func (d *digester) Write(p []byte) (int, error) {
	if d.size+uint64(len(p)) > manifest.MaxSize {
		return 0, refuse(code.TooLarge, "the image has more than %d bytes, compressed", int64(manifest.MaxSize))
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), topology.ChunkSize-d.inChunk)
		d.chunk.Write(rest[:n])
		if d.inChunk += n; d.inChunk == topology.ChunkSize {
			d.endChunk()
		}
		rest = rest[n:]
	}
	d.whole.Write(p)
	d.size += uint64(len(p))
	n, err := d.file.Write(p)
	if err != nil {
		err = fmt.Errorf("the image cannot be written: %w", reason(err))
	}
	return n, err
}

func (d *digester) endChunk() {
	d.digests = append(d.digests, d.chunk.Sum(nil))
	d.chunk.Reset()
	d.inChunk = 0
}

func (d *digester) blob() *imagev1.Blob {
	if d.inChunk > 0 {
		d.endChunk()
	}
	return &imagev1.Blob{
		Digest:         d.whole.Sum(nil),
		SizeBytes:      d.size,
		ChunkSizeBytes: topology.ChunkSize,
		ChunkDigests:   d.digests,
	}
}

func refuse(code, format string, args ...any) error {
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: code, Message: fmt.Sprintf(format, args...)})
}
