package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/garrison-fleet/garrison/pkg/archive"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/sbom"
)

// packed is the result of packing a directory.
type packed struct {
	unpacked uint64
	entries  uint32
}

// pack writes an SBOM, if there is one, and everything in root but the recipe to w, as a zstd-compressed tar archive,
// until ctx is done. The output depends on names, contents, the executable bit and nothing else. seen is called for
// each regular file of root.
func pack(ctx context.Context, root *os.Root, components []byte, w io.Writer, seen seenFile) (packed, error) {
	// One encoder goroutine: with more, the output could depend on the machine.
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return packed{}, err
	}
	p := &packer{ctx: ctx, root: root, tar: tar.NewWriter(z), tree: archive.NewTree(), seen: seen}
	if err := p.components(components); err != nil {
		_ = z.Close()
		return packed{}, err
	}
	// WalkDir goes in the order of names, directories before their contents.
	if err := fs.WalkDir(root.FS(), ".", p.entry); err != nil {
		_ = z.Close()
		return packed{}, err
	}
	if err := p.checkLinks(); err != nil {
		_ = z.Close()
		return packed{}, err
	}
	if err := p.tar.Close(); err != nil {
		return packed{}, err
	}
	return p.packed, z.Close()
}

type packer struct {
	ctx  context.Context
	root *os.Root
	tar  *tar.Writer
	tree *archive.Tree // everything that was packed
	seen seenFile
	packed
}

// seenFile is called with a regular file before it is packed.
type seenFile func(name string, f *os.File, info fs.FileInfo)

func (p *packer) entry(name string, d fs.DirEntry, err error) error {
	if done := p.ctx.Err(); done != nil {
		return done
	}
	switch {
	case err != nil:
		return notPacked(name, err)
	case name == "." || name == RecipeName || name == sbom.Name:
		return nil
	case p.entries == manifest.MaxEntries:
		return refuse(code.TooLarge, "the directory has more than %d entries", manifest.MaxEntries)
	}
	h, err := headerOf(name, d.Type())
	if err != nil {
		return err
	}
	clean, err := archive.CheckName(h.Name)
	if err != nil {
		return err
	}
	p.entries++
	p.tree.Add(clean, h.Typeflag)
	switch h.Typeflag {
	case tar.TypeReg:
		return p.file(name, h)
	case tar.TypeSymlink:
		return p.symlink(name, h)
	}
	return p.tar.WriteHeader(h)
}

// components packs the SBOM, before anything else.
func (p *packer) components(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	h := header(tar.TypeReg, sbom.Name, 0o644)
	h.Size = int64(len(data))
	p.entries++
	p.unpacked += uint64(h.Size)
	p.tree.Add(sbom.Name, h.Typeflag)
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err := p.tar.Write(data)
	return err
}

// headerOf returns the header of an entry without its size or target.
func headerOf(name string, kind fs.FileMode) (*tar.Header, error) {
	switch kind {
	case 0:
		return header(tar.TypeReg, name, 0o644), nil
	case fs.ModeDir:
		return header(tar.TypeDir, name+"/", 0o755), nil
	case fs.ModeSymlink:
		return header(tar.TypeSymlink, name, 0o777), nil
	}
	return nil, refuse(code.SpecialFile, "%q is neither a file, a directory nor a symbolic link (%s)", name, kind)
}

func header(kind byte, name string, mode int64) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, ModTime: time.Unix(0, 0)}
}

func (p *packer) file(name string, h *tar.Header) error {
	f, err := openRegular(p.root, name)
	if err != nil {
		return notPacked(name, err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return notPacked(name, err)
	}
	p.seen(name, f, info)
	if info.Mode()&0o111 != 0 {
		h.Mode = 0o755
	}
	h.Size = info.Size()
	p.unpacked += uint64(h.Size)
	if p.unpacked > manifest.MaxUnpacked {
		return refuse(code.TooLarge, "the files have more than %d bytes", int64(manifest.MaxUnpacked))
	}
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	return p.content(f, name, h.Size)
}

// content copies a file that must not change its size meanwhile.
func (p *packer) content(f io.Reader, name string, size int64) error {
	n, err := io.Copy(p.tar, io.LimitReader(&contentReader{p.ctx, f, name}, size))
	if err != nil {
		return err
	}
	if more, _ := f.Read(make([]byte, 1)); n != size || more > 0 {
		return changed(name)
	}
	return nil
}

func (p *packer) symlink(name string, h *tar.Header) error {
	var err error
	if h.Linkname, err = p.root.Readlink(name); err != nil {
		return notPacked(name, err)
	}
	if err := p.tree.AddLink(name, h.Linkname); err != nil {
		return err
	}
	return p.tar.WriteHeader(h)
}

// checkLinks refuses a symbolic link that leads to nothing that was packed.
func (p *packer) checkLinks() error {
	for _, name := range p.tree.Links() {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if err := p.tree.Follow(name); err != nil {
			return err
		}
	}
	return nil
}

// errNotRegular is the error for a directory, a pipe or a device in the place of a file.
var errNotRegular = errors.New("not a regular file")

// openRegular opens a regular file of the directory, or one that a link leads to. It never waits for a pipe.
func openRegular(root *os.Root, name string) (*os.File, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	// A pipe that replaced the file since is opened without waiting for its writer, and refused.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// unreadable returns why a file of the directory cannot be read, without the name of the system call.
func unreadable(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "is not in the directory"
	case errors.Is(err, errNotRegular):
		return "is not a regular file"
	}
	return fmt.Sprintf("cannot be read: %v", reason(err))
}

// reason returns the cause of a failed system call without the name of the call.
func reason(err error) error {
	if at := new(fs.PathError); errors.As(err, &at) {
		return at.Err
	}
	return err
}

// notPacked returns the error for an entry that was listed and cannot be read.
func notPacked(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
		return changed(name)
	}
	return fmt.Errorf("%q %s", name, unreadable(err))
}

func changed(name string) error { return refuse(code.Changed, "%q changed while it was packed", name) }

// contentReader reads a file of the directory until its context is done.
type contentReader struct {
	ctx  context.Context
	file io.Reader
	name string
}

// Read implements io.Reader.
func (c *contentReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.file.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = notPacked(c.name, err)
	}
	return n, err
}
