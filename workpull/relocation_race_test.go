//go:build race

package workpull

const raceDetectorOn = true
