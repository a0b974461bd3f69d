package source

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/seal"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

const (
	beforeName = "index-before.json"  // the index that index.json replaced
	temporary  = ".garrison-publish-" // begins the name of a file that is being written
)

// webRoot is a directory that is published. Others may write to it: no access follows a link that leads out of it, and
// of what it holds, only what an index lists that the key signed counts as its own.
type webRoot struct {
	root   *os.Root
	seed   []byte
	self   source // the directory, with the public half of the key
	signed *sourcev1.SignedIndex
	before *sourcev1.Index // in signed
}

// openWebRoot opens a directory and deletes what earlier runs left. An empty one gets the index, so that the next run
// knows it. One with files and without an index that the key signed is refused.
func openWebRoot(dir string, seed []byte, index *sourcev1.Index) (_ *webRoot, err error) {
	self, err := selfOf(dir, seed)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	w := &webRoot{root: root, seed: seed, self: self}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err := w.own(index); err != nil {
		return nil, err
	}
	if err := root.MkdirAll(imagesDir, 0o755); err != nil {
		return nil, err
	}
	return w, errors.Join(w.deleteTemporary(imagesDir), w.prune())
}

// selfOf returns a place as a source of the key that signs it.
func selfOf(place string, seed []byte) (source, error) {
	public, err := seal.Public(seed)
	return &sourcev1.Source{Name: place, Keys: []string{public}}, err
}

func (w *webRoot) close() { _ = w.root.Close() }

// own reads the index of the directory.
func (w *webRoot) own(index *sourcev1.Index) error {
	if err := w.deleteTemporary("."); err != nil {
		return err
	}
	entries, err := fs.ReadDir(w.root.FS(), ".")
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		if err := w.write(indexName, index); err != nil {
			return err
		}
	}
	if w.signed, w.before, err = w.read(indexName); err != nil {
		return notOwn(w.self, err)
	}
	return nil
}

// notOwn refuses a directory with files that the key did not sign.
func notOwn(self source, err error) error {
	return fault.Refusef(fault.Conflict, code.BadSource,
		"directory %s has files, and no index that this key signed, so nothing in it is touched: %v", self.Name, err).
		Try("garrison source publish EMPTY-DIR --key FILE")
}

// check refuses a directory that openWebRoot refuses, and changes nothing.
func (d directory) check(_ context.Context, seed []byte) error {
	self, err := selfOf(string(d), seed)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err == nil {
		_, _, err = readIn(string(d), indexName, self)
	}
	if err != nil {
		return notOwn(self, err)
	}
	return nil
}

// write has the source published in the directory itself, which keeps the files of earlier ones.
func (d directory) write(_ context.Context, _ []byte, publish func(dir string) error) error {
	return publish(string(d))
}

// read reads an index that the key signed.
func (w *webRoot) read(name string) (*sourcev1.SignedIndex, *sourcev1.Index, error) {
	return readIn(w.root.Name(), name, w.self)
}

func readIn(dir, name string, self source) (*sourcev1.SignedIndex, *sourcev1.Index, error) {
	f, err := regular.OpenIn(dir, name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	return verify(f, self)
}

// holds reports whether the file of an image is as it was listed, and has this manifest.
func (w *webRoot) holds(l listed, m *imagev1.Manifest) bool {
	file, err := regular.OpenIn(w.root.Name(), fileName(l))
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	if have, err := digestOf(file); err != nil || !bytes.Equal(have, l.GetFileDigest()) {
		return false
	}
	f, err := image.From(file)
	return err == nil && proto.Equal(f.Manifest(), m)
}

// publish replaces the index, in one step, and keeps the one before for the next run, which deletes its files.
func (w *webRoot) publish(index *sourcev1.Index) error {
	data, err := protojson.Marshal(w.signed)
	if err != nil {
		return err
	}
	if err := w.replace(beforeName, data); err != nil {
		return err
	}
	return w.write(indexName, index)
}

func (w *webRoot) write(name string, index *sourcev1.Index) error {
	data, err := sign(index, w.seed)
	if err != nil {
		return err
	}
	return w.replace(name, data)
}

// sign returns the content of the file of an index.
func sign(index *sourcev1.Index, seed []byte) ([]byte, error) {
	text, err := protojson.Marshal(index)
	if err != nil {
		return nil, err
	}
	signed, err := seal.SignIndex(text, seed)
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(signed)
}

func (w *webRoot) replace(name string, data []byte) error {
	temp, err := w.create(".", func(f *os.File) error { _, err := f.Write(data); return err })
	if err != nil {
		return err
	}
	return w.root.Rename(temp, name)
}

// create writes a new file that a web server can read, and returns its name, which is random.
func (w *webRoot) create(dir string, write func(*os.File) error) (string, error) {
	name := path.Join(dir, temporary+rand.Text())
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	if err = write(f); err == nil {
		err = errors.Join(f.Chmod(0o644), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, w.root.Remove(name))
	}
	return name, nil
}

// deleteTemporary deletes what interrupted runs left.
func (w *webRoot) deleteTemporary(dir string) error {
	entries, err := fs.ReadDir(w.root.FS(), dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), temporary) {
			err = errors.Join(err, w.root.Remove(path.Join(dir, e.Name())))
		}
	}
	return err
}

// prune deletes the image files that the index before the present one lists, and the present one does not.
func (w *webRoot) prune() (err error) {
	_, older, e := w.read(beforeName)
	if e != nil {
		return nil // nothing is known to be the directory's own
	}
	kept := map[string]bool{}
	for _, l := range w.before.GetImages() {
		kept[fileName(l)] = true
	}
	for _, l := range older.GetImages() {
		if kept[fileName(l)] {
			continue
		}
		if gone := w.root.Remove(fileName(l)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("delete an old image: %w", gone))
		}
	}
	return err
}
