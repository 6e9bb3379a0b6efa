//go:build !race

package workpull

const raceDetectorOn = false
