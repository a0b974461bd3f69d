package image

import (
	"bytes"
	"context"
)

// ReadBytes opens and verifies an image file that is in memory, for fuzzing.
func ReadBytes(ctx context.Context, data []byte) error {
	r := bytes.NewReader(data)
	m, offset, err := readLayout("x.gimg", r, r.Size())
	if err != nil {
		return err
	}
	return (&File{file: r, manifest: m, offset: offset}).Verify(ctx)
}

// Unlisted packs an entry whose directory could not be read.
func Unlisted(name string, err error) error {
	return (&packer{ctx: context.Background()}).entry(name, nil, err)
}
