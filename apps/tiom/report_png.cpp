#include <cmath>
#include <memory>
#include <stdexcept>

#ifdef TIOM_HAVE_CAIRO
#include <cairo.h>
#endif

#include "picture.hpp"
#include "report.hpp"

namespace tiom {

#ifdef TIOM_HAVE_CAIRO
namespace {

constexpr double kScale = 2;  // for screens of many pixels, and for print

void set_color(cairo_t* cairo, const Color& color) {
  cairo_set_source_rgb(cairo, color.red / 255.0, color.green / 255.0, color.blue / 255.0);
}

void draw(cairo_t* cairo, const Picture::Box& box) {
  set_color(cairo, box.fill);
  cairo_rectangle(cairo, box.x, box.y, box.width, box.height);
  cairo_fill(cairo);
}

void draw(cairo_t* cairo, const Picture::Text& text) {
  cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                         text.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(cairo, text.size);
  cairo_text_extents_t extents;
  cairo_text_extents(cairo, text.text.c_str(), &extents);
  const double back = text.anchor == Picture::Anchor::start    ? 0
                      : text.anchor == Picture::Anchor::middle ? extents.x_advance / 2
                                                               : extents.x_advance;
  set_color(cairo, text.color);
  cairo_move_to(cairo, text.x - back, text.y);
  cairo_show_text(cairo, text.text.c_str());
}

}  // namespace

std::string missing_png() {
  return {};
}

void write_png(const Report& report, const std::string& path) {
  const Picture picture = whole_picture(report);
  const std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24,
                                 static_cast<int>(std::ceil(picture.width * kScale)),
                                 static_cast<int>(std::ceil(picture.height * kScale))),
      &cairo_surface_destroy);
  const std::unique_ptr<cairo_t, void (*)(cairo_t*)> cairo(cairo_create(surface.get()),
                                                           &cairo_destroy);
  cairo_scale(cairo.get(), kScale, kScale);
  set_color(cairo.get(), {255, 255, 255});
  cairo_paint(cairo.get());
  for (const Picture::Box& box : picture.boxes) draw(cairo.get(), box);
  for (const Picture::Text& text : picture.texts) draw(cairo.get(), text);
  cairo_status_t status = cairo_status(cairo.get());
  if (status == CAIRO_STATUS_SUCCESS) {
    status = cairo_surface_write_to_png(surface.get(), path.c_str());
  }
  if (status != CAIRO_STATUS_SUCCESS) {
    throw std::runtime_error("cannot write '" + path + "': " + cairo_status_to_string(status));
  }
}

#else

std::string missing_png() {
  return "--png: this ioweave-tiom was built without cairo; install libcairo2-dev and configure "
         "again, or use --html";
}

void write_png(const Report&, const std::string&) {
  throw std::runtime_error(missing_png());
}

#endif

}  // namespace tiom
