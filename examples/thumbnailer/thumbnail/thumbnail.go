// Package thumbnail makes small pictures of large ones.
package thumbnail

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
)

// maxPixels bounds the picture that is decoded: a small file can claim any
// size.
const maxPixels = 64 << 20

// Make decodes a JPEG or PNG file and returns it width pixels wide, in the same
// format, with its proportions. A picture that is not wider keeps its size.
func Make(file []byte, width int) (thumbnail []byte, format string, err error) {
	config, format, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return nil, "", fmt.Errorf("read the picture's size: %w", err)
	}
	if config.Width*config.Height > maxPixels {
		return nil, "", fmt.Errorf("the picture has %d × %d pixels, wanted at most %d in all", config.Width, config.Height, maxPixels)
	}
	picture, _, err := image.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, "", fmt.Errorf("decode the picture: %w", err)
	}
	small := shrink(picture, Size(picture.Bounds().Size(), width))
	var out bytes.Buffer
	switch format {
	case "jpeg":
		err = jpeg.Encode(&out, small, &jpeg.Options{Quality: 85})
	case "png":
		err = png.Encode(&out, small)
	default:
		err = fmt.Errorf("format %s is not served, wanted jpeg or png", format)
	}
	if err != nil {
		return nil, "", fmt.Errorf("encode the thumbnail: %w", err)
	}
	return out.Bytes(), format, nil
}

// Size is the size of the thumbnail of a picture.
func Size(picture image.Point, width int) image.Point {
	if picture.X <= width {
		return picture
	}
	return image.Pt(width, max(1, (picture.Y*width+picture.X/2)/picture.X))
}

// shrink averages the pixels that fall into each pixel of the result.
func shrink(from image.Image, size image.Point) image.Image {
	bounds := from.Bounds()
	to := image.NewRGBA64(image.Rectangle{Max: size})
	for y := range size.Y {
		top, bottom := span(y, size.Y, bounds.Dy())
		for x := range size.X {
			left, right := span(x, size.X, bounds.Dx())
			var r, g, b, a, n uint64
			for sy := top; sy < bottom; sy++ {
				for sx := left; sx < right; sx++ {
					pr, pg, pb, pa := from.At(bounds.Min.X+sx, bounds.Min.Y+sy).RGBA()
					r, g, b, a, n = r+uint64(pr), g+uint64(pg), b+uint64(pb), a+uint64(pa), n+1
				}
			}
			to.SetRGBA64(x, y, color.RGBA64{R: uint16(r / n), G: uint16(g / n), B: uint16(b / n), A: uint16(a / n)})
		}
	}
	return to
}

// span is the part [from, to) of length pixels that pixel i of count covers.
func span(i, count, length int) (from, to int) {
	from = i * length / count
	return from, max(from+1, (i+1)*length/count)
}
