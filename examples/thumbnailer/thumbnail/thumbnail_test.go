package thumbnail_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/workpull/operator/examples/thumbnailer/thumbnail"
)

func TestMakeFromRealFiles(t *testing.T) {
	for name, want := range map[string]image.Point{
		"video-001.jpeg":             {64, 44},
		"video-001.cmyk.jpeg":        {64, 44},
		"video-001.progressive.jpeg": {64, 44},
		"video-005.gray.jpeg":        {64, 44},
		"video-001.png":              {64, 44},
	} {
		file, err := os.ReadFile(filepath.Join(goroot(t), "src/image/testdata", name))
		require.NoError(t, err)
		small, format, err := thumbnail.Make(file, 64)
		require.NoError(t, err, name)
		picture, decoded, err := image.Decode(bytes.NewReader(small))
		require.NoError(t, err, name)
		require.Equal(t, format, decoded)
		require.Equal(t, want, picture.Bounds().Size(), name)
	}
}

// Each pixel of the result is the mean of those that it stands for.
func TestMakeAverages(t *testing.T) {
	picture := image.NewGray(image.Rect(0, 0, 4, 2))
	copy(picture.Pix, []byte{0, 100, 40, 40, 100, 200, 80, 80})
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, picture))
	small, _, err := thumbnail.Make(file.Bytes(), 2)
	require.NoError(t, err)
	got, err := png.Decode(bytes.NewReader(small))
	require.NoError(t, err)
	require.Equal(t, image.Pt(2, 1), got.Bounds().Size())
	for x, want := range []uint8{100, 60} {
		require.Equal(t, want, color.GrayModel.Convert(got.At(x, 0)).(color.Gray).Y)
	}
}

func TestMakeRefuses(t *testing.T) {
	_, _, err := thumbnail.Make([]byte("no picture"), 64)
	require.ErrorContains(t, err, "read the picture's size")
	file, err := os.ReadFile(filepath.Join(goroot(t), "src/image/testdata/video-001.png"))
	require.NoError(t, err)
	_, _, err = thumbnail.Make(file[:len(file)/2], 64)
	require.ErrorContains(t, err, "decode the picture")
}

func TestSize(t *testing.T) {
	require.Equal(t, image.Pt(150, 103), thumbnail.Size(image.Pt(150, 103), 200), "nothing is enlarged")
	require.Equal(t, image.Pt(10, 1), thumbnail.Size(image.Pt(1000, 3), 10), "nothing vanishes")
}

// goroot is the folder of Go, with pictures among its test data.
func goroot(t *testing.T) string {
	t.Helper()
	folder, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(folder))
}
