package apm

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/regular"
)

// decompress returns the tar archive in a file: as it is, or behind gzip or bzip2.
func decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(6)
	switch {
	case errors.Is(err, io.EOF):
		return nil, wrong("the archive has less than 6 bytes")
	case err != nil:
		return nil, err
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.HasPrefix(head, []byte("BZh")):
		return bzip2.NewReader(b), nil
	case bytes.HasPrefix(head, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		return nil, wrong("the archive is compressed with xz, which is not read; take the files entry out of the " +
			"manifest, and xz -d FILE")
	}
	return b, nil
}

// unpack unpacks the archive of an agent into a directory, without the directory that holds everything in the archive,
// and returns the name of that. It stops when ctx is done.
func unpack(ctx context.Context, file string, into *os.Root) (top string, err error) {
	f, err := regular.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	r, err := decompress(&reader{ctx, f})
	if err != nil {
		return "", damaged(file, err)
	}
	u := &unpacking{into: into, tar: tar.NewReader(r)}
	for {
		h, err := u.tar.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.entry(h)
		}
		if err != nil {
			return "", damaged(file, err)
		}
	}
	if u.top == "" {
		return "", wrong("%s is no agent: the archive is empty", file)
	}
	return u.top, nil
}

// damaged returns why an archive cannot be unpacked, with a code also where it is not an archive or ends too early.
func damaged(file string, err error) error {
	var structure bzip2.StructuralError
	for _, known := range []error{io.EOF, io.ErrUnexpectedEOF, gzip.ErrHeader, gzip.ErrChecksum, tar.ErrHeader} {
		if errors.Is(err, known) || errors.As(err, &structure) {
			return wrong("%s is cut short, damaged or no tar archive: %v; fetch it again", file, err)
		}
	}
	return fmt.Errorf("unpack %s: %w", file, err)
}

// reader reads until its context is done.
type reader struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(b)
}

// unpacking is an archive that is being unpacked.
type unpacking struct {
	into    *os.Root
	tar     *tar.Reader
	top     string
	bytes   int64
	entries int
}

// entry unpacks one entry.
func (u *unpacking) entry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := u.within(h.Name)
	if err != nil || name == "." {
		return err
	}
	if u.entries++; u.entries > manifest.MaxEntries {
		return wrong("it has more than %d entries", manifest.MaxEntries)
	}
	if u.bytes += h.Size; h.Size < 0 || u.bytes > manifest.MaxUnpacked {
		return wrong("its files have more than %d bytes", int64(manifest.MaxUnpacked))
	}
	if err := u.into.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.into.MkdirAll(name, 0o755)
	case tar.TypeReg:
		return u.file(name, h)
	case tar.TypeSymlink:
		_ = u.into.Remove(name) // a later entry replaces an earlier one
		return u.into.Symlink(h.Linkname, name)
	case tar.TypeLink:
		to, err := u.within(h.Linkname)
		if err != nil {
			return err
		}
		_ = u.into.Remove(name)
		return u.into.Link(to, name)
	}
	return wrong("%s is neither a file, a directory nor a link", h.Name)
}

// within returns the name of an entry below the directory that holds everything.
func (u *unpacking) within(name string) (string, error) {
	clean := path.Clean(strings.TrimPrefix(name, "./"))
	if clean == "." {
		return clean, nil
	}
	if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		return "", wrong("the entry %q leads out of the archive", name)
	}
	top, rest, _ := strings.Cut(clean, "/")
	if u.top == "" {
		u.top = top
	}
	if top != u.top {
		return "", wrong("it holds %q beside %q; the archive of an agent has one directory", top, u.top)
	}
	return path.Join(".", rest), nil
}

func (u *unpacking) file(name string, h *tar.Header) error {
	_ = u.into.Remove(name)
	mode := os.FileMode(0o644)
	if h.Mode&0o111 != 0 {
		mode = 0o755
	}
	f, err := u.into.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, u.tar, h.Size)
	return errors.Join(err, f.Close())
}
