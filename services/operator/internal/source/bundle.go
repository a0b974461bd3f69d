package source

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// bundleExtension ends the name of a source that is one file.
const bundleExtension = ".tar"

// bundle is a place that is one file: a tar archive of what the directory of a source has.
type bundle struct {
	path  string
	files map[string]part
}

// part is where a file stands in a bundle.
type part struct{ offset, size int64 }

// openBundle finds the files of a bundle. It refuses an archive that ends too soon, and one with anything else: nothing
// of a bundle is unpacked under a name that the archive has.
func openBundle(path string) (*bundle, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, unusable("%v", err)
	}
	defer func() { _ = f.Close() }()
	b := &bundle{path: path, files: map[string]part{}}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, unusable("bundle %s: damaged after %d files: %v", path, len(b.files), err)
		}
		offset, err := f.Seek(0, io.SeekCurrent) // package tar reads no further than the header
		if err != nil {
			return nil, err
		}
		if err := b.add(h, offset); err != nil {
			return nil, err
		}
	}
}

// add notes a file of a bundle.
func (b *bundle) add(h *tar.Header, offset int64) error {
	digest, isImage := strings.CutPrefix(h.Name, imagesDir+"/")
	digest = strings.TrimSuffix(digest, image.Extension)
	switch _, twice := b.files[h.Name]; {
	case h.Typeflag != tar.TypeReg,
		h.Name != indexName && (!isImage || strings.ContainsAny(digest, "/\\.") || len(b.files) > maxListed):
		return unusable("bundle %s: the entry %.80q does not belong to a source", b.path, h.Name)
	case twice:
		return unusable("bundle %s: the entry %.80q is a duplicate", b.path, h.Name)
	}
	b.files[h.Name] = part{offset, h.Size}
	return nil
}

func (b *bundle) open(_ context.Context, name string, offset int64) (io.ReadCloser, int64, error) {
	p, ok := b.files[name]
	if !ok {
		return nil, 0, unusable("bundle %s has no %s", b.path, name)
	}
	f, err := regular.Open(b.path)
	if err != nil {
		return nil, 0, unusable("%v", err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, p.offset+offset, p.size-offset), f}, offset, nil
}

// checkAll refuses images of which a bundle lacks a file, or has another than its index says. A bundle is at hand as a
// whole, so that nothing of a wrong one is imported.
func (b *bundle) checkAll(ctx context.Context, all []listed) error {
	for _, l := range all {
		if err := b.check(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (b *bundle) check(ctx context.Context, l listed) error {
	content, _, err := b.open(ctx, fileName(l), 0)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	have, err := digestOf(content)
	if err != nil {
		return err
	}
	return checkDigest(l, have)
}

// bundleFile is the path of a bundle that is published.
type bundleFile string

// write writes a source as one file, by way of a directory beside it.
func (path bundleFile) write(ctx context.Context, seed []byte, publish func(dir string) error) error {
	if err := errors.Join(cli.CheckTarget(string(path)), path.check(ctx, seed)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(string(path)), temporary)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := publish(dir); err != nil {
		return err
	}
	return writeBundle(string(path), dir)
}

// check refuses to replace a file that is not a bundle of the key.
func (path bundleFile) check(ctx context.Context, seed []byte) error {
	if _, err := os.Lstat(string(path)); err != nil {
		return nil
	}
	b, err := openBundle(string(path))
	if err == nil {
		err = checkOwn(ctx, b, string(path), seed)
	}
	if err != nil {
		return fault.Refusef(fault.Conflict, code.BadSource,
			"%s is no bundle that this key signed, so it is not replaced: %v", path, err).
			Try("garrison source publish NEW.tar --key FILE")
	}
	return nil
}

// checkOwn refuses a place whose index a key did not sign.
func checkOwn(ctx context.Context, at place, name string, seed []byte) error {
	body, _, err := at.open(ctx, indexName, 0)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	self, err := selfOf(name, seed)
	if err == nil {
		_, _, err = verify(body, self)
	}
	return err
}

// writeBundle writes the files of a source into one, the index first, and replaces path in one step.
func writeBundle(path, dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, imagesDir, "*"+image.Extension))
	if err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(path), temporary)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(out.Name()) }() // fails once it was renamed
	w := tar.NewWriter(out)
	for _, name := range append([]string{filepath.Join(dir, indexName)}, names...) {
		err = errors.Join(err, addFile(w, dir, name))
	}
	if err = errors.Join(err, w.Close(), out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), path)
}

func addFile(w *tar.Writer, dir, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Size: info.Size(), Mode: 0o644}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
